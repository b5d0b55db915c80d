#include "actors/launch/record_folder.hpp"

#include <catch2/catch.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <vector>

#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

const auto noon = std::chrono::system_clock::from_time_t(1'800'000'000); // 2027-01-15 08:00:00 UTC

std::string made_in(const std::string& parent, std::chrono::seconds later = {}) {
  auto folder = make_record_folder(parent, noon + later);
  if (!folder)
    FAIL(folder.error().text);
  return *folder;
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// Sets a variable of this process until the end of the test.
class variable {
public:
  variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name))
      before_ = before;
    set(value);
  }
  variable(const variable&) = delete;
  variable& operator=(const variable&) = delete;
  ~variable() { set(before_ ? before_->c_str() : nullptr); }

private:
  void set(const char* value) {
    if (value)
      ::setenv(name_, value, 1);
    else
      ::unsetenv(name_);
  }

  const char* name_;
  std::optional<std::string> before_;
};

} // namespace

TEST_CASE("a folder for records and those above it can be accessed by the user alone") {
  const temporary_folder home;
  const auto folder = made_in(home.file("state/farandole/dumps"));
  CHECK(folder == home.file("state/farandole/dumps/20270115T080000-") + std::to_string(::getpid()));
  CHECK(mode_of(folder) == 0700);
  CHECK(mode_of(home.file("state/farandole")) == 0700);
}

TEST_CASE("two folders of one second have different names") {
  const temporary_folder home;
  const auto first = made_in(home.path()), second = made_in(home.path());
  CHECK(second == first + "-2");
}

TEST_CASE("the newest folders are kept, and files of other programs are not removed") {
  const temporary_folder home;
  std::filesystem::create_directory(home.file("0-mine"));
  for (int number = 0; number < 11; ++number)
    std::ofstream(made_in(home.path(), std::chrono::seconds(number)) + "/rank-0.events") << "x";
  const auto names = names_in(home.path());
  REQUIRE(names.size() == most_record_folders + 1);
  CHECK(names.front() == "0-mine");
  CHECK_THAT(names[1], Contains("T080003-"));
  CHECK_THAT(names.back(), Contains("T080010-"));
}

TEST_CASE("a place where no folder can be made is named in the error") {
  const temporary_folder home;
  std::ofstream(home.file("file")) << "x";
  const auto folder = make_record_folder(home.file("file/dumps"), noon);
  REQUIRE_FALSE(folder);
  CHECK_THAT(folder.error().text, Contains("/file/dumps cannot be made: Not a directory"));
}

TEST_CASE("folders are below the state folder of the user") {
  const variable home("HOME", "/home/somebody");
  {
    const variable state("XDG_STATE_HOME", "/var/state");
    CHECK(record_folders_of_this_user() == "/var/state/farandole/dumps");
  }
  for (const char* value : {static_cast<const char*>(nullptr), "", "relative"}) {
    const variable state("XDG_STATE_HOME", value);
    CHECK(record_folders_of_this_user() == "/home/somebody/.local/state/farandole/dumps");
  }
  const variable none("HOME", nullptr), state("XDG_STATE_HOME", nullptr);
  CHECK_THAT(record_folders_of_this_user(), EndsWith("/.local/state/farandole/dumps"));
}
