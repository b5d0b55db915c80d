#include "actors/timeline/timeline_file.hpp"

#include <catch2/catch.hpp>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

std::string content(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string refusal(const std::filesystem::path& path) {
  const auto created = timeline_file::create(path, "{}");
  return created ? "" : created.error().text;
}

} // namespace

TEST_CASE("the file of a timeline is a complete array after each write", "[timeline]") {
  const temporary_folder folder;
  const auto path = folder.file("t.json");
  auto file = timeline_file::create(path, "{\"a\": 1},\n{}");
  REQUIRE(file);
  CHECK(content(path) == "[\n{\"a\": 1},\n{}]");
  REQUIRE_FALSE(file->append("{\"b\": 2}"));
  CHECK(content(path) == "[\n{\"a\": 1},\n{},\n{\"b\": 2}]");
  REQUIRE_FALSE(file->append(""));
  REQUIRE_FALSE(file->append("{\"c\": 3}"));
  CHECK(content(path) == "[\n{\"a\": 1},\n{},\n{\"b\": 2},\n{\"c\": 3}]");
}

TEST_CASE("an existing file is replaced", "[timeline]") {
  const temporary_folder folder;
  const auto path = folder.file("t.json");
  std::ofstream(path) << std::string(1000, 'x');
  REQUIRE(timeline_file::create(path, "{}"));
  CHECK(content(path) == "[\n{}]");
}

TEST_CASE("what is no regular file is refused, with the reason", "[timeline]") {
  const temporary_folder folder;
  CHECK(refusal(folder.path()) == "the timeline cannot be written to " + folder.path() + ": Is a directory");
  const auto pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(refusal(pipe) == "the timeline cannot be written to " + pipe + ": it is not a regular file");
  const auto missing = folder.file("none/t.json");
  CHECK(refusal(missing) == "the timeline cannot be written to " + missing + ": No such file or directory");
}

TEST_CASE("a file belongs to one timeline at a time", "[timeline]") {
  const temporary_folder folder;
  const auto path = folder.file("t.json");
  auto first = timeline_file::create(path, "{}");
  REQUIRE(first);
  CHECK(refusal(path) == "the timeline cannot be written to " + path +
                             ": another process writes its timeline to this file; give each job its own");
  REQUIRE_FALSE(first->append("{}"));
  CHECK(content(path) == "[\n{},\n{}]");
}

TEST_CASE("a child that was forked does not keep the file of a timeline that has ended", "[timeline]") {
  const temporary_folder folder;
  const auto path = folder.file("t.json");
  auto first = timeline_file::create(path, "{}");
  REQUIRE(first);
  const auto child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  REQUIRE(child > 0);
  first = error{error_kind::shut_down, "the timeline has ended"};
  CHECK(refusal(path).empty());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("a timeline notices that its file was removed, or changed by others", "[timeline]") {
  const temporary_folder folder;
  const auto path = folder.file("t.json");
  auto file = timeline_file::create(path, "{}");
  REQUIRE(file);
  SECTION("removed") {
    std::filesystem::remove(path);
    CHECK(file->append("{}").text == "the timeline cannot be written to " + path + ": the file was removed");
  }
  SECTION("changed") {
    std::filesystem::resize_file(path, 0);
    CHECK(file->append("{}").text ==
          "the timeline cannot be written to " + path + ": another program has changed the file");
    CHECK(content(path).empty());
  }
}

TEST_CASE("a file that cannot grow keeps its records", "[timeline]") {
  const temporary_folder folder;
  const auto path = folder.file("t.json");
  auto file = timeline_file::create(path, "{}");
  REQUIRE(file);
  // The limit of file sizes stands for a full disk: in both cases a part of the bytes is written.
  const auto before = ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  const rlimit small{10, limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto problem = file->append(R"({"name": "long"})");
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  ::signal(SIGXFSZ, before);
  CHECK(problem.text == "the timeline cannot be written to " + path + ": File too large");
  CHECK(content(path) == "[\n{}]");
}
