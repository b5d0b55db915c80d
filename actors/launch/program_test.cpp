#include "actors/launch/program.hpp"

#include <catch2/catch.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;
namespace fs = std::filesystem;

namespace {

/// A folder that is the working directory as long as the test runs.
struct working_folder {
  const temporary_folder made;
  const fs::path before = fs::current_path(), path = made.path();
  working_folder() { fs::current_path(path); }
  ~working_folder() { fs::current_path(before); }
  void write(const std::string& name, mode_t mode) const {
    std::ofstream(path / name) << "#!/bin/sh\n";
    ::chmod((path / name).c_str(), mode);
  }
};

std::string refusal(const std::string& command, int code, const std::string& path = "/usr/bin:/bin") {
  const auto found = find_program(command, path);
  REQUIRE_FALSE(found);
  CHECK(start_failure_code(found.error()) == code);
  return found.error().text;
}

} // namespace

TEST_CASE("a command is looked up in the same places as by a shell", "[program]") {
  const working_folder folder;
  folder.write("tool", 0755);
  CHECK(*find_program("./tool", "") == "./tool");
  CHECK(*find_program("tool", "/nonexistent:" + folder.path.string()) == folder.path.string() + "/tool");
  CHECK(*find_program("tool", "") == "./tool"); // an empty folder is the working directory
}

TEST_CASE("the error for a script that is no command says how to run it", "[program]") {
  const working_folder folder;
  folder.write("hello.py", 0644);
  folder.write("tool", 0755);
  CHECK(refusal("hello.py", 127) == "hello.py: command not found; did you mean \"python hello.py\"?");
  CHECK(refusal("tool", 127) == "tool: command not found; did you mean \"./tool\"?");
  CHECK(refusal("absent.py", 127) == "absent.py: command not found");
  CHECK(refusal("./absent.py", 127) == "./absent.py: No such file or directory");
}

TEST_CASE("a file that is not executable gives code 126 and a remedy", "[program]") {
  const working_folder folder;
  folder.write("hello.py", 0644);
  folder.write("tool", 0644);
  CHECK(refusal("./hello.py", 126) ==
        "./hello.py: permission denied: the file is not executable; did you mean \"python ./hello.py\"?");
  CHECK(refusal("./tool", 126) ==
        "./tool: permission denied: the file is not executable; make it so: chmod +x ./tool");
  CHECK(refusal("tool", 126, folder.path).starts_with(folder.path.string() + "/tool: permission denied"));
  CHECK(refusal("./", 126) == "./ is a directory");
}

TEST_CASE("the error for a script without its interpreter blames the interpreter, not the script",
          "[program]") {
  const working_folder folder;
  folder.write("tool", 0755);
  const auto problem = start_failure("./tool", ENOENT);
  CHECK(problem.text.find("bad interpreter") != std::string::npos);
  CHECK(start_failure_code(problem) == 126);
  CHECK(start_failure_code(start_failure("./gone", ENOENT)) == 127);
}
