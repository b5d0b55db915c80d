// Helpers for tests of the command line of `farandole run`: parse one, with an environment that the test makes.
#pragma once

#include <catch2/catch.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

#include "messages/settings/environment_testing.hpp"
#include "tools/farandole/command_line.hpp"

namespace farandole::testing {

using words = std::vector<std::string>;

inline surroundings around(variables values = {}, bool has_jsrun = false) {
  return {environment_of(std::move(values)),
          has_jsrun,
          {},
          [](const std::string& path) -> expected<std::string> {
            return error{error_kind::invalid_argument, "there is no " + path};
          },
          [](const words& command) -> expected<std::string> {
            if (command.front() == "csm_allocation_query")
              return std::string("isolated_cores: 1\ncompute_nodes:\n - b\n - c\n");
            return std::string(
                "Record_1:\n  discovered_cores: 44\n  discovered_sockets: 2\n  discovered_gpus: 6\n");
          }};
}

inline run_request parsed(const words& given, const surroundings& environment = around()) {
  auto result = parse_run("horovodrun", given, environment);
  if (!result)
    FAIL(result.error().text);
  return *result;
}

inline std::string refusal(const words& given, const surroundings& environment = around()) {
  auto result = parse_run("horovodrun", given, environment);
  REQUIRE_FALSE(result);
  CHECK(result.error().text.starts_with("usage: horovodrun "));
  return result.error().text;
}

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// A file that is removed at the end of the test.
struct file {
  std::string path;
  explicit file(const std::string& content, const std::string& name = "farandole-test-XXXXXX") {
    path = std::filesystem::temp_directory_path() / name;
    const int fd = ::mkstemp(path.data());
    REQUIRE(fd >= 0);
    ::close(fd);
    std::ofstream(path) << content;
  }
  ~file() { std::remove(path.c_str()); }
};

} // namespace farandole::testing
