#include "tools/farandole/explain/record_files.hpp"

#include <catch2/catch.hpp>

#include <dirent.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "messages/record/event_recorder.hpp"
#include "tests/temporary_folder.hpp"
#include "tools/farandole/explain/explain_testing.hpp"

using namespace farandole;
using namespace farandole::testing;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

/// The number of entries of folders that can be read until an error occurs; -1: all.
int readable_entries = -1;

class record_folder : public temporary_folder {
public:
  /// Writes a record of a rank that has called nothing, and returns its path.
  std::string write(const std::string& name, std::int32_t rank, std::uint64_t job = 7) const {
    const auto file = path() + "/" + name;
    const auto region = event_region::open(file, 16);
    REQUIRE(region);
    event_recorder recorder(*region);
    recorder.describe({job, 1, rank, 2, rank, "alpha"});
    recorder.record(event_kind::generation_begin, 0, 0, 0, 1,
                    pair_field(2, static_cast<std::uint32_t>(rank)));
    return file;
  }
};

std::string only_problem(const record_files& found) {
  REQUIRE(found.problems.size() == 1);
  return found.problems.front();
}

} // namespace

// std::filesystem calls this function instead of the system's.
extern "C" [[gnu::visibility("default")]] dirent* readdir(DIR* folder) {
  if (readable_entries != 0) {
    readable_entries -= readable_entries > 0;
    return reinterpret_cast<dirent*>(::readdir64(folder));
  }
  errno = EIO;
  return nullptr;
}

TEST_CASE("the records of a folder are read, and other files in it are not", "[explain]") {
  const record_folder folder;
  folder.write("rank-0.events", 0);
  folder.write("rank-1.events", 1);
  std::ofstream(folder.path() + "/notes.txt") << "notes";
  auto found = read_record_files({folder.path()});
  CHECK(found.problems.empty());
  REQUIRE(found.files.size() == 2);
  CHECK_THAT(found.files[1].path, EndsWith("/rank-1.events"));
  CHECK(activities_in(found, {}).size() == 2);
  CHECK(found.problems.empty());
}

TEST_CASE("a path that does not exist, and a folder without records, are problems", "[explain]") {
  const record_folder folder;
  CHECK_THAT(only_problem(read_record_files({folder.path() + "/none"})),
             Contains("/none cannot be read: No such file or directory"));
  CHECK_THAT(only_problem(read_record_files({folder.path()})),
             EndsWith("has no event records (files *.events and *.trace)"));
}

TEST_CASE("a folder that cannot be read to its end is a problem", "[explain]") {
  const record_folder folder;
  for (const char* name : {"a.events", "b.events", "c.events"})
    folder.write(name, 0);
  readable_entries = 4; // three of five may be records
  const auto found = read_record_files({folder.path()});
  readable_entries = -1;
  CHECK_THAT(only_problem(found), EndsWith(" cannot be read: Input/output error"));
}

TEST_CASE("a file that is damaged is a problem, and the others are read", "[explain]") {
  const record_folder folder;
  folder.write("rank-0.events", 0);
  const auto path = folder.write("rank-1.events", 1);
  const auto overwrite = [&](std::streamoff place, const std::string& bytes) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(place);
    file << bytes;
  };
  std::string expected;
  SECTION("truncated") {
    std::filesystem::resize_file(path, 1000);
    expected = "/rank-1.events is no complete event record: it has 1000 bytes";
  }
  SECTION("empty") {
    std::filesystem::resize_file(path, 0);
    expected = "it has 0 bytes";
  }
  SECTION("10 GB long") {
    std::filesystem::resize_file(path, std::uintmax_t{10} << 30);
    expected = "it has 10737418240 bytes";
  }
  SECTION("another version") {
    overwrite(8, std::string("\x09", 1));
    expected = "has version 9; this program reads version 1";
  }
  SECTION("garbage") {
    overwrite(0, "garbage!");
    expected = "it does not begin with the mark of one";
  }
  SECTION("a pipe") {
    std::filesystem::remove(path);
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    expected = "/rank-1.events is no plain file";
  }
  const auto found = read_record_files({folder.path()});
  CHECK_THAT(only_problem(found), Contains(expected));
  CHECK(found.files.size() == 1);
}

TEST_CASE("a record without room for all names is read, and said to be incomplete", "[explain]") {
  const record_folder folder;
  const auto path = folder.write("rank-0.events", 0);
  {
    event_recorder recorder(*event_region::open(path, 16));
    for (int number = 0; number < 7'000; ++number)
      recorder.intern("layer." + std::to_string(number));
  }
  const auto found = read_record_files({folder.path()});
  CHECK(found.problems.empty());
  REQUIRE(found.notices.size() == 1);
  CHECK_THAT(found.notices[0],
             EndsWith("/rank-0.events: the record had no room for the names of all tensors; those "
                      "without a name are shown as one"));
  CHECK(found.files.size() == 1);
}

TEST_CASE("records of another job are left out, and the job with most records is explained", "[explain]") {
  const record_folder folder;
  folder.write("a.events", 0, 7);
  folder.write("b.events", 0, 8);
  folder.write("c.events", 1, 8);
  auto found = read_record_files({folder.path()});
  const auto activities = activities_in(found, {});
  CHECK_THAT(only_problem(found), EndsWith("/a.events is left out: it is the record of another job"));
  REQUIRE(activities.size() == 2);
  CHECK(activities[0].job == 8);
}

TEST_CASE("of two records of one rank the later one counts", "[explain]") {
  record_files found;
  found.files = {{"old", made_record(0, 2).complete(1, "a").record()}, {"new", made_record(0, 2).record()}};
  found.files[1].record.origin.system += std::chrono::hours(1);
  const auto activities = activities_in(found, {});
  CHECK_THAT(only_problem(found), Contains("old is left out: new is a later record of rank 0"));
  REQUIRE(activities.size() == 1);
  CHECK(activities[0].tensors.empty());
}

TEST_CASE("the generation of a member that died is explained, with the ranks of that generation",
          "[explain]") {
  record_files found;
  found.files = {
      {"killed", made_record(1, 3).complete(1, "a").copied(100, "was killed by signal 9 (Killed)").record()},
      {"second",
       made_record(2, 3).call(5, "x").fail(50, "rank 1 was lost").enter(60, 2, 1, 2).copied(100).record()}};
  const auto activities = activities_in(found, {});
  CHECK(found.problems.empty());
  REQUIRE(activities.size() == 2);
  CHECK(activities[0].rank == 1);
  CHECK(activities[1].rank == 2);
  CHECK(activities[1].has_pending({0, "x"}));
}

TEST_CASE("processes that are no members are kept beside the members", "[explain]") {
  record_files found;
  found.files = {{"one", made_record(-1, 0).record()},
                 {"two", made_record(-1, 0).record()},
                 {"three", made_record(0, 2).record()}};
  CHECK(activities_in(found, {}).size() == 3);
  CHECK(found.problems.empty());
}

TEST_CASE("times of all hosts are those of the host of the lowest rank", "[explain]") {
  auto there = made_record(1, 2).call(2'005, "x").wait(2'006, "x").copied(2'100).record();
  there.member.host = "beta";
  there.origin.system += std::chrono::hours(1); // its system clock is wrong
  there.clock = recorded_clock{0, std::chrono::seconds(-2), std::chrono::microseconds(50), {}, 0};
  record_files found;
  found.files = {{"here", made_record(0, 2).call(7, "x").copied(100).record()}, {"there", there}};
  const auto activities = activities_in(found, {});
  REQUIRE(activities.size() == 2);
  for (const auto& activity : activities) {
    CHECK(activity.copied == at_ms(100));
    CHECK(found.files[activity.file].record.member.rank == activity.rank);
  }
  CHECK(activities[0].tensors.at({0, "x"}).since == at_ms(7));
  CHECK(activities[1].tensors.at({0, "x"}).since == at_ms(5));
  CHECK(activities[1].waits.at({0, "x"}) == at_ms(6));
}
