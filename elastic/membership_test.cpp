#include "elastic/membership.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

hello from_slot(std::int32_t slot, std::int32_t size, const std::string& host = "a") {
  hello value;
  value.slot = slot;
  value.size = size;
  value.host = host;
  value.host_name = host;
  value.address = "127.0.0.1:" + std::to_string(5000 + slot);
  return value;
}

// Routes are 100 + slot in the first generation.
membership three_running() {
  membership job{3, 1};
  for (std::int32_t slot = 0; slot < 3; ++slot)
    job.join(static_cast<route>(100 + slot), from_slot(slot, 3));
  return job;
}

} // namespace

TEST_CASE("a generation starts when the last slot has said hello, and not before") {
  membership job{2, 7};
  auto first = job.join(11, from_slot(1, 2));
  CHECK(first.admissions.empty());
  CHECK(job.missing() == "0");
  auto second = job.join(10, from_slot(0, 2));
  REQUIRE(second.admissions.size() == 2);
  CHECK(second.admissions[0].to == 10);
  CHECK(second.admissions[0].welcome.rank == 0);
  CHECK(second.admissions[1].welcome.rank == 1);
  CHECK(second.admissions[1].welcome.generation == 1);
  CHECK(second.admissions[1].welcome.epoch == 7);
  CHECK(second.admissions[1].welcome.members[1].address == "127.0.0.1:5001");
}

TEST_CASE("local and cross ranks follow the hosts") {
  membership job{5, 1};
  const char* hosts[] = {"a", "b", "a", "b", "a"};
  membership_decision last;
  for (std::int32_t slot = 0; slot < 5; ++slot)
    last = job.join(static_cast<route>(slot), from_slot(slot, 5, hosts[slot]));
  auto& members = last.admissions.at(0).welcome.members;
  CHECK(members[2].local_rank == 1);
  CHECK(members[2].local_size == 3);
  CHECK(members[3].local_rank == 1);
  CHECK(members[3].local_size == 2);
  CHECK(members[3].cross_rank == 1);
  CHECK(members[3].cross_size == 2);
  CHECK(members[4].cross_size == 1);
}

TEST_CASE("a lost member ends the generation for all others once") {
  auto job = three_running();
  auto told = job.exit(1, "was killed by signal 9");
  REQUIRE(told.notices.size() == 2);
  CHECK(told.notices[0].to == 100);
  CHECK(told.notices[1].to == 102);
  CHECK(told.notices[0].lost.rank == 1);
  CHECK(told.notices[0].lost.reason == "was killed by signal 9");
  CHECK(job.disconnect(101, "closed").notices.empty());
  CHECK_FALSE(job.running());
}

TEST_CASE("leaving in order is no loss, even when the process then ends") {
  auto job = three_running();
  job.leave(101, 1);
  CHECK(job.disconnect(101, "closed").notices.empty());
  CHECK(job.exit(1, "exited with code 0").notices.empty());
  CHECK(job.running());
}

TEST_CASE("a process may say hello again before its farewell has arrived") {
  membership job{2, 1};
  hello again[] = {from_slot(0, 2), from_slot(1, 2)};
  for (std::int32_t slot = 0; slot < 2; ++slot) {
    again[slot].process = 700 + slot;
    job.join(static_cast<route>(100 + slot), again[slot]);
  }
  CHECK(job.join(201, again[1]).refusals.empty());
  job.leave(101, 1); // late, by a link that counts no more
  CHECK(job.disconnect(101, "closed").notices.empty());
  job.leave(100, 1);
  auto formed = job.join(200, again[0]);
  REQUIRE(formed.admissions.size() == 2);
  CHECK(formed.admissions[1].to == 201);
  CHECK(job.generation() == 2);
}

TEST_CASE("another process is refused while a slot is taken, whatever its number") {
  membership job{2, 1};
  auto first = from_slot(1, 2);
  first.process = 700;
  job.join(101, first);
  auto other = from_slot(1, 2, "b");
  other.process = 700;
  CHECK(job.join(102, other).refusals.size() == 1);
}

TEST_CASE("after all have left, the same slots form the next generation") {
  auto job = three_running();
  for (route r : {100, 101, 102})
    job.leave(r, 1);
  job.join(200, from_slot(0, 3));
  job.join(201, from_slot(1, 3));
  auto last = job.join(202, from_slot(2, 3));
  REQUIRE(last.admissions.size() == 3);
  CHECK(last.admissions[0].welcome.generation == 2);
}

TEST_CASE("one that left and says hello again waits until the others have left too") {
  auto job = three_running();
  job.leave(100, 1);
  CHECK(job.join(200, from_slot(0, 3)).admissions.empty());
  job.leave(101, 1);
  CHECK(job.join(201, from_slot(1, 3)).admissions.empty());
  job.leave(102, 1);
  CHECK(job.join(202, from_slot(2, 3)).admissions.size() == 3);
}

TEST_CASE("hellos that cannot be part of the job are refused with the reason") {
  auto job = three_running();
  auto refusal = [&](hello request) { return job.join(999, request).refusals.at(0).reason; };
  auto other_version = from_slot(0, 3);
  other_version.wire_version = 99;
  CHECK_THAT(refusal(other_version), Catch::Contains("wire version 99"));
  CHECK_THAT(refusal(from_slot(0, 4)), Catch::Contains("expects 4 members"));
  CHECK_THAT(refusal(from_slot(3, 3)), Catch::Contains("slot 3 is not in 0..2"));
  CHECK_THAT(refusal(from_slot(1, 3)), Catch::Contains("slot 1 is taken"));
}

TEST_CASE("once a process has ended, those who wait for the next generation are refused") {
  auto job = three_running();
  for (route r : {100, 101, 102})
    job.leave(r, 1);
  job.join(200, from_slot(0, 3));
  auto told = job.exit(2, "exited with code 3");
  REQUIRE(told.refusals.size() == 1);
  CHECK(told.refusals[0].to == 200);
  CHECK_THAT(told.refusals[0].reason, Catch::Contains("slot 2 exited with code 3"));
  CHECK_THAT(job.join(201, from_slot(1, 3)).refusals.at(0).reason,
             Catch::Contains("slot 2 exited with code 3"));
}

TEST_CASE("a member that reports a broken generation ends it for the others") {
  auto job = three_running();
  auto told = job.report(102, lost{1, 2, "its lane failed"});
  CHECK(told.notices.size() == 3);
  CHECK(job.report(100, lost{0, 0, "late"}).notices.empty());
}
