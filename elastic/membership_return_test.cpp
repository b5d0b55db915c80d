#include <catch2/catch.hpp>

#include "elastic/membership_testing.hpp"

using namespace farandole;

namespace {

constexpr std::uint64_t old_epoch = 5, new_epoch = 6;

hello hello_of(std::int32_t slot, std::uint64_t epoch = 0) {
  hello value;
  value.slot = slot;
  value.size = 3;
  value.host = value.host_name = "a";
  value.address = "127.0.0.1:" + std::to_string(5000 + slot);
  value.process = 1000 + slot;
  value.epoch = epoch;
  return value;
}

returning return_of(std::int32_t slot, std::uint64_t generation = 1) {
  returning value;
  value.generation = generation;
  value.rank = value.slot = slot;
  value.host = "a";
  value.process = 1000 + slot;
  value.epoch = old_epoch;
  return value;
}

membership three_running() {
  membership job{{3, true, 1, 4}, old_epoch};
  for (std::int32_t slot = 0; slot < 3; ++slot)
    job.expect(slot);
  for (std::int32_t slot = 0; slot < 3; ++slot)
    job.join(static_cast<link_id>(100 + slot), hello_of(slot));
  REQUIRE(job.running());
  return job;
}

/// The restored membership of three running members.
membership started_again() {
  return membership::restored(three_running().image(), new_epoch);
}

} // namespace

TEST_CASE("a generation that was journalled but announced to no member has made no process a member") {
  auto two = membership{{2, true, 1, 3}, old_epoch};
  for (std::int32_t slot = 0; slot < 3; ++slot)
    two.expect(slot);
  two.join(100, hello_of(0));
  two.join(101, hello_of(1));
  two.report(100, {1, 0, "lost a link"});
  two.join(200, hello_of(0, old_epoch));
  two.join(202, hello_of(2));
  // the admissions are lost with the rendezvous
  REQUIRE(two.join(201, hello_of(1, old_epoch)).admissions.size() == 3);
  auto job = membership::restored(two.image(), new_epoch);
  job.join(300, hello_of(0, old_epoch));
  job.join(302, hello_of(2));
  const auto formed = job.join(301, hello_of(1, old_epoch));
  REQUIRE(formed.admissions.size() == 3);
  CHECK(formed.roster.generation == 3);
  CHECK(formed.roster.must_sync);
  CHECK(formed.roster.members.back().slot == 2);
  for (const auto& admission : formed.admissions)
    CHECK(admission.joined_late == (admission.to == 302));
}

TEST_CASE("after an unannounced first generation, no member joins the second one late") {
  auto job = started_again();
  job.join(300, hello_of(0));
  job.join(301, hello_of(1));
  const auto formed = job.join(302, hello_of(2));
  REQUIRE(formed.admissions.size() == 3);
  for (const auto& admission : formed.admissions)
    CHECK_FALSE(admission.joined_late);
}

TEST_CASE("members come back into the generation that they were in") {
  auto job = started_again();
  CHECK(job.running());
  for (std::int32_t slot = 0; slot < 3; ++slot) {
    const auto decision = job.come_back(static_cast<link_id>(200 + slot), return_of(slot));
    REQUIRE(decision.resumptions.size() == 1);
    CHECK(decision.resumptions[0].to == static_cast<link_id>(200 + slot));
    CHECK(decision.resumptions[0].event == resumed{1, new_epoch, 0, true});
    CHECK(decision.loss_notices.empty());
  }
  CHECK(job.generation() == 1);
  CHECK(job.give_up_waiting(1).loss_notices.empty());
}

TEST_CASE("a member that comes back is told of changes that it may have missed") {
  auto before = three_running();
  before.retire(1);
  auto job = membership::restored(before.image(), new_epoch);
  CHECK(job.come_back(200, return_of(0)).resumptions.at(0).event == resumed{1, new_epoch, 1, true});
}

TEST_CASE("after all have come back, losses and new generations work as before") {
  auto job = started_again();
  for (std::int32_t slot = 0; slot < 3; ++slot)
    job.come_back(static_cast<link_id>(200 + slot), return_of(slot));
  const auto loss = job.exit(1, "was killed by signal 9");
  REQUIRE(loss.loss_notices.size() == 2);
  CHECK(loss.loss_notices[0].lost.rank == 1);
  job.join(300, hello_of(0, new_epoch));
  const auto next = job.join(302, hello_of(2, new_epoch));
  REQUIRE(next.admissions.size() == 2);
  CHECK(next.roster.generation == 2);
  CHECK(next.roster.epoch == new_epoch);
  CHECK(next.admissions[1].rank == 1);
}

TEST_CASE("a member that does not come back is lost, and the others go on without it") {
  auto job = started_again();
  job.come_back(200, return_of(0));
  job.come_back(202, return_of(2));
  const auto loss = job.give_up_waiting(1);
  REQUIRE(loss.loss_notices.size() == 2);
  CHECK(loss.loss_notices[0].lost.rank == 1);
  CHECK_THAT(loss.loss_notices[0].lost.reason, Catch::Contains("did not reconnect"));
  job.join(300, hello_of(0, new_epoch));
  CHECK(job.join(302, hello_of(2, new_epoch)).admissions.size() == 2);
}

TEST_CASE("a survivor's hello after the restart of the rendezvous ends the generation that lost a member") {
  auto job = started_again();
  CHECK(job.join(300, hello_of(0, old_epoch)).admissions.empty());
  CHECK_FALSE(job.running());
  job.exit(1, "was killed by signal 9");
  const auto next = job.join(302, hello_of(2, old_epoch));
  REQUIRE(next.admissions.size() == 2);
  CHECK(next.roster.must_sync);
}

TEST_CASE("a member that said hello again before its farewell is still a member after the restart") {
  auto before = three_running();
  // its first link is still open, so that it may have left or lost another member
  before.join(200, hello_of(0, old_epoch));
  auto job = membership::restored(before.image(), new_epoch);
  job.come_back(301, return_of(1));
  job.come_back(302, return_of(2));
  const auto loss = job.join(300, hello_of(0, old_epoch));
  REQUIRE(loss.loss_notices.size() == 2); // otherwise the others would wait for it, and it for them
  CHECK(loss.loss_notices[0].lost.rank == 0);
  job.join(401, hello_of(1, new_epoch));
  CHECK(job.join(402, hello_of(2, new_epoch)).admissions.size() == 3);
}

TEST_CASE("a member that said hello again is no member after the restart once its farewell has come") {
  auto before = three_running();
  before.join(200, hello_of(0, old_epoch));
  const auto number = before.revision();
  before.leave(100, 1);
  CHECK(before.revision() != number); // the journal must record the farewell
  auto job = membership::restored(before.image(), new_epoch);
  job.come_back(301, return_of(1));
  job.come_back(302, return_of(2));
  CHECK(job.join(300, hello_of(0, old_epoch)).loss_notices.empty());
  job.leave(301, 1);
  job.leave(302, 1);
  job.join(401, hello_of(1, new_epoch));
  CHECK(job.join(402, hello_of(2, new_epoch)).admissions.size() == 3);
}

TEST_CASE("a member that never heard of the last generation is refused if its other members are gone") {
  auto before = membership{{1, true, 1, 2}, old_epoch};
  before.expect(0);
  auto holder = hello_of(0);
  REQUIRE(before.join(100, holder).admissions.size() == 1);
  before.expect(1);
  before.join(101, hello_of(1));
  before.leave(100, 1);
  holder.state_generation = 1;
  REQUIRE(before.join(200, holder).admissions.size() == 2);
  auto job = membership::restored(before.image(), new_epoch); // before the admissions were sent
  job.exit(0, "was killed by signal 9");
  const auto told = job.join(201, hello_of(1));
  CHECK(told.admissions.empty());
  REQUIRE(told.refusals.size() == 1);
  CHECK_THAT(told.refusals[0].reason.reason,
             Catch::Contains("all members that knew how far the training is"));
}

TEST_CASE("the restarted rendezvous knows that the training state was lost with its holders") {
  auto before = membership{{2, true, 1, 2}, old_epoch};
  before.expect(0);
  before.expect(1);
  auto holder = hello_of(0);
  holder.state_generation = 1;
  before.join(100, holder);
  REQUIRE(before.join(101, hello_of(1)).admissions.size() == 2);
  auto job = membership::restored(before.image(), new_epoch);
  job.exit(0, "was killed by signal 9");
  const auto told = job.join(201, hello_of(1, old_epoch));
  CHECK(told.admissions.empty());
  REQUIRE(told.refusals.size() == 1);
  CHECK_THAT(told.refusals[0].reason.reason,
             Catch::Contains("all members that knew how far the training is"));
}

TEST_CASE("a slot is not given to another process while its own process may come back") {
  auto job = started_again();
  auto other = hello_of(1);
  other.process = 4711;
  CHECK_THAT(job.join(300, other).refusals.at(0).reason.reason, Catch::Contains("taken by process 1001"));
  auto posing = return_of(1);
  posing.process = 4711;
  CHECK_THAT(job.come_back(301, posing).refusals.at(0).reason.reason, Catch::Contains("process 1001"));
  auto misplaced = return_of(1);
  misplaced.rank = 2;
  CHECK_THAT(job.come_back(302, misplaced).refusals.at(0).reason.reason, Catch::Contains("is rank 1"));
  CHECK(job.running());
}

TEST_CASE("a member of a generation that has ended is told so when it comes back") {
  auto before = three_running();
  before.exit(2, "was killed by signal 9");
  auto job = membership::restored(before.image(), new_epoch);
  const auto late = job.come_back(200, return_of(0));
  REQUIRE(late.loss_notices.size() == 1);
  CHECK(late.loss_notices[0].to == 200);
  CHECK(late.loss_notices[0].lost.generation == 1);
  CHECK_THAT(job.come_back(202, return_of(2)).refusals.at(0).reason.reason, Catch::Contains("signal 9"));
  job.join(300, hello_of(0));
  CHECK(job.join(301, hello_of(1)).admissions.size() == 2);
}

TEST_CASE("a rendezvous without its journal, or with an older one, takes no member back") {
  membership empty{{3, true, 1, 4}, new_epoch};
  CHECK_THAT(empty.come_back(200, return_of(0)).refusals.at(0).reason.reason, Catch::Contains("journal"));
  auto older = started_again();
  CHECK_THAT(older.come_back(200, return_of(0, 9)).refusals.at(0).reason.reason,
             Catch::Contains("generations up to 1") && Catch::Contains("journal"));
}

TEST_CASE("a rendezvous of a lower epoch than a member has seen is superseded") {
  auto job = started_again();
  auto far = return_of(0);
  far.epoch = new_epoch + 1;
  CHECK(job.come_back(200, far).superseded_by == new_epoch + 1);
  CHECK(job.join(300, hello_of(1, new_epoch + 2)).superseded_by == new_epoch + 2);
}

TEST_CASE("replacing a link before it is closed is no loss") {
  auto job = three_running();
  CHECK(job.come_back(201, return_of(1)).resumptions.size() == 1);
  CHECK(job.disconnect(101, "closed its connection").loss_notices.empty());
  CHECK(job.running());
  CHECK(job.disconnect(201, "closed its connection").loss_notices.size() == 2);
}

TEST_CASE("another process in a slot whose farewell is awaited changes the image and the revision",
          "[membership]") {
  membership job{{.size = 2}, 1};
  const auto process = [](std::int64_t number) {
    auto value = from_slot(0, 2);
    value.process = number;
    return value;
  };
  job.join(100, process(200));
  job.join(101, from_slot(1, 2));
  job.join(102, process(200)); // the process says hello again before its farewell
  job.leave(102, 0);
  const auto before = job.image();
  const auto revision = job.revision();
  job.join(103, process(300));
  REQUIRE_FALSE(job.image() == before);
  CHECK(job.revision() > revision);
}
