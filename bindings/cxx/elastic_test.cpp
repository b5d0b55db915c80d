// Members that are lost, come and go.
#include <catch2/catch.hpp>

#include <malloc.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "bindings/cxx/elastic_testing.hpp"

using namespace farandole;

TEST_CASE("survivors of a loss go on in the next generation, in their old order") {
  const elastic_job job(3, 3);
  auto members = job.together({0, 1, 2});
  CHECK(counted(members) == 3.0F);
  CHECK(members[0]->must_sync());
  CHECK_FALSE(members[0]->joined_late());
  job.tell(slot_exited{0, "was killed by signal 9"});
  for (std::size_t survivor : {1, 2}) {
    const auto why = ending(*members[survivor]);
    CHECK(why.kind == error_kind::disconnected);
    CHECK_THAT(why.text, Catch::Contains("rank 0") && Catch::Contains("was killed by signal 9"));
  }
  members.clear();
  auto survivors = job.together({1, 2});
  CHECK(counted(survivors) == 2.0F);
  CHECK(survivors[0]->rank() == 0);
  CHECK(survivors[1]->rank() == 1);
  CHECK(survivors[0]->local_size() == 2);
  CHECK(survivors[0]->generation() == 2);
  CHECK(survivors[0]->must_sync());
}

TEST_CASE("a new member waits, the others hear of it, and all go on together") {
  const elastic_job job(2, 3);
  auto members = job.together({0, 1});
  CHECK(members[0]->membership_change() == std::pair<std::uint64_t, bool>{0, false});
  job.tell(slot_started{2});
  auto waiting = job.start(2);
  told_of(members, 1);
  CHECK(members[1]->membership_change() == std::pair<std::uint64_t, bool>{1, false});
  CHECK(counted(members) == 2.0F);
  members.clear();
  members = job.together({0, 1});
  members.push_back(elastic_job::in(waiting));
  CHECK(counted(members) == 3.0F);
  CHECK(members[0]->must_sync());
  CHECK_FALSE(members[0]->joined_late());
  CHECK(members[2]->joined_late());
  CHECK(members[2]->rank() == 2);
}

TEST_CASE("a slot that is taken out is dismissed, and the others need not sync") {
  const elastic_job job(3, 3);
  auto members = job.together({0, 1, 2});
  job.tell(slot_retired{1});
  told_of(members, 1);
  CHECK(members[2]->membership_change() == std::pair<std::uint64_t, bool>{1, true});
  CHECK(counted(members) == 3.0F);
  members.clear();
  auto gone = job.start(1);
  auto rest = job.together({0, 2});
  CHECK(counted(rest) == 2.0F);
  CHECK_FALSE(rest[0]->must_sync());
  auto dismissed = gone.get();
  REQUIRE_FALSE(dismissed);
  CHECK(dismissed.error().kind == error_kind::dismissed);
}

TEST_CASE("a member that withdraws leaves as if it were taken out, and knows of it at once") {
  const elastic_job job(3, 3);
  auto members = job.together({0, 1, 2});
  members[1]->withdraw();
  CHECK(members[1]->membership_change() == std::pair<std::uint64_t, bool>{1, true});
  told_of(members, 1);
  members[1]->withdraw();
  CHECK(counted(members) == 3.0F);
  CHECK(members[0]->membership_change() == std::pair<std::uint64_t, bool>{1, true});
  members.clear();
  auto gone = job.start(1);
  auto rest = job.together({0, 2});
  CHECK(counted(rest) == 2.0F);
  CHECK_FALSE(rest[0]->must_sync());
  auto dismissed = gone.get();
  REQUIRE_FALSE(dismissed);
  CHECK(dismissed.error().kind == error_kind::dismissed);
}

TEST_CASE("a process that the launcher has not started is turned away") {
  const elastic_job job(1, 2);
  auto members = job.together({0});
  auto stranger = job.start(5).get();
  REQUIRE_FALSE(stranger);
  CHECK_THAT(stranger.error().text, Catch::Contains("slot 5 was not started by this job's launcher"));
  CHECK(counted(members) == 1.0F);
}

namespace {

/// What a process has.
struct belongings {
  std::size_t heap_bytes =
      mallinfo2().uordblks; ///< what threads keep for their next calls counts as well; 0 under sanitizers
  std::size_t resident_kib = resident();
  std::size_t descriptors = entries("/proc/self/fd");
  std::size_t threads = entries("/proc/self/task");

  static std::size_t entries(const char* folder) {
    const std::filesystem::directory_iterator first{folder};
    return static_cast<std::size_t>(std::distance(first, std::filesystem::directory_iterator{}));
  }
  static std::size_t resident() {
    std::size_t all = 0, here = 0;
    std::ifstream("/proc/self/statm") >> all >> here;
    return here * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 1024;
  }
};

/// A job whose two members see a third one come and go so often: two generations each time.
void come_and_go(std::int32_t guests) {
  const elastic_job job(2, 3);
  auto members = job.together({0, 1});
  for (std::int32_t guest = 2; guest < 2 + guests; ++guest) {
    job.tell(slot_started{guest});
    auto coming = job.start(guest);
    told_of(members, 1);
    members.clear();
    members = job.together({0, 1});
    members.push_back(elastic_job::in(coming));
    REQUIRE(counted(members) == 3.0F);
    job.tell(slot_retired{guest});
    told_of(members, 1);
    members.clear();
    auto going = job.start(guest);
    members = job.together({0, 1});
    REQUIRE(counted(members) == 2.0F);
    auto gone = going.get();
    REQUIRE_FALSE(gone);
    REQUIRE(gone.error().kind == error_kind::dismissed);
    job.tell(slot_exited{guest, "exited with code 0"});
  }
  CHECK(members[0]->generation() == static_cast<std::uint64_t>(2 * guests + 1));
}

} // namespace

TEST_CASE("a hundred changes of members leave nothing behind") {
  come_and_go(5);
  const belongings early;
  come_and_go(50);
  const belongings late;
  CHECK(late.heap_bytes <= early.heap_bytes + 64 * 1024);
  CHECK(late.descriptors == early.descriptors);
  CHECK(late.threads == early.threads);
  if (late.heap_bytes > 0)
    CHECK(late.resident_kib <= early.resident_kib + 4 * 1024);
}
