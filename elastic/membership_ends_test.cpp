// Members that begin anew or wait in vain: cases in which a generation does not form as planned.
#include "elastic/membership_testing.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

TEST_CASE("a member lost with its first generation begins anew, and takes no sets from the others") {
  auto job = elastic_running(2, 4);
  for (const std::int32_t slot : {2, 3}) {
    job.expect(slot);
    job.join(static_cast<link_id>(300 + slot), from_slot(slot, 1));
  }
  job.leave(101, 1);
  job.join(201, with_set_of_one(1));
  job.leave(100, 1);
  REQUIRE(job.join(200, with_set_of_one(0)).admissions.size() == 4);
  job.exit(2, "was killed by signal 9"); // slot 2 ends before slot 3 was connected
  job.join(303, from_slot(3, 1));
  job.join(301, with_set_of_one(1));
  const auto formed = job.join(300, with_set_of_one(0));
  REQUIRE(formed.admissions.size() == 3);
  CHECK(formed.roster.sets == std::vector<kept_set>{{{0, false, 0}, 1, {1}}});
  CHECK(formed.roster.must_sync);
  for (std::size_t rank : {0, 1, 2})
    CHECK(formed.admissions[rank].joined_late == (rank == 2));
}

TEST_CASE("a report counts although its sender has said hello again before it arrived") {
  auto job = elastic_running(3, 3, 1, true);
  for (const std::int32_t slot : {0, 2})
    job.join(static_cast<link_id>(200 + slot), from_process(slot));
  const auto told = job.report(100, lost{1, 1, "has made no progress"});
  REQUIRE(told.loss_notices.size() == 1);
  CHECK(told.loss_notices[0].to == 101);
  CHECK(told.loss_notices[0].lost == lost{1, 1, "has made no progress"});
  // The member that reported the loss is not counted as lost.
  CHECK(job.disconnect(100, "closed its connection").loss_notices.empty());
  CHECK(slots_of(job.join(201, from_process(1))) == std::vector{0, 1, 2});
}

TEST_CASE(
    "a stuck member is not waited for, although the reporter said hello again before its report arrived") {
  auto job = elastic_running(2, 2, 1, true);
  job.join(200, from_process(0));
  CHECK(slots_of(job.report(100, lost{1, 1, "has made no progress", true})) == std::vector{0});
}

TEST_CASE("a member that comes after several have ended is told of the first one") {
  membership job{{3}, 1};
  job.exit(2, "exited with code 1");
  job.exit(0, "exited with code 1");
  const auto told = job.join(101, from_slot(1, 3));
  REQUIRE(told.refusals.size() == 1);
  CHECK(told.refusals[0].reason.reason == "the job cannot form again: slot 2 exited with code 1");
}

TEST_CASE("if all members begin anew after a loss, none joins late") {
  auto job = elastic_running(3, 3);
  job.exit(2, "was killed by signal 9");
  job.join(200, from_slot(0, 1));
  const auto formed = job.join(201, from_slot(1, 1));
  REQUIRE(formed.admissions.size() == 2);
  CHECK_FALSE(formed.admissions[0].joined_late);
  CHECK_FALSE(formed.admissions[1].joined_late);
}

TEST_CASE("a stuck member that was lost before any training begins, if it is the only one left") {
  auto job = elastic_running(2, 2);
  job.report(101, lost{1, 0, "has made no progress", true});
  job.retire(1);
  CHECK(slots_of(job.join(200, from_slot(0, 1))) == std::vector{0});
}

TEST_CASE("a member lost before it had the state waits for the member that has it") {
  auto job = elastic_running(1, 2);
  job.expect(1);
  job.join(301, from_slot(1, 1));
  auto knows = from_slot(0, 1);
  knows.state_generation = 1;
  job.leave(100, 1);
  REQUIRE(job.join(200, knows).admissions.size() == 2);
  job.report(200, lost{2, 1, "has made no progress", true});
  job.disconnect(200, "closed its connection");
  CHECK(job.join(201, from_slot(1, 1)).admissions.empty());
  CHECK(slots_of(job.join(300, knows)).size() == 2);
}

TEST_CASE("a member that never joined a generation does not begin anew if the others have trained") {
  auto job = elastic_running(1, 2);
  job.expect(1);
  job.join(301, from_slot(1, 1));
  auto again = from_slot(0, 1);
  again.keeps_sets = true;
  again.state_generation = 1;
  job.leave(100, 1);
  REQUIRE(job.join(200, again).admissions.size() == 2);
  job.exit(0, "was killed by signal 9"); // slot 0 ends before slot 1 was connected
  const auto told = job.join(302, from_slot(1, 1));
  CHECK(told.admissions.empty());
  REQUIRE(told.refusals.size() == 1);
  CHECK(told.refusals[0].reason.reason.find("all members that knew how far the training is were lost") == 0);
}

TEST_CASE("a sole survivor that was in its elastic loop but never had the state does not begin anew") {
  auto job = elastic_running(1, 2);
  job.expect(1);
  job.join(301, from_slot(1, 1));
  auto again = from_slot(0, 1);
  again.keeps_sets = true;
  again.state_generation = 1;
  job.leave(100, 1);
  REQUIRE(job.join(200, again).admissions.size() == 2);
  job.exit(0, "was killed by signal 9"); // slot 0 ends while slot 1 waits for the state
  auto survivor = from_slot(1, 1);
  survivor.keeps_sets = true;
  const auto told = job.join(302, survivor);
  CHECK(told.admissions.empty());
  REQUIRE(told.refusals.size() == 1);
  CHECK(told.refusals[0].reason.reason.find("all members that knew how far the training is were lost") == 0);
}

TEST_CASE("a member that has the state gets rank 0, even if it was disconnected and the others were not") {
  auto job = elastic_running(1, 3);
  for (const std::int32_t slot : {1, 2}) {
    job.expect(slot);
    job.join(static_cast<link_id>(300 + slot), from_slot(slot, 1));
  }
  auto holder = from_slot(0, 1);
  holder.keeps_sets = true;
  holder.state_generation = 1;
  job.leave(100, 1);
  REQUIRE(job.join(200, holder).admissions.size() == 3);
  job.disconnect(200, "closed its connection"); // before it gave the state to the others
  auto waits = from_slot(2, 1);
  waits.keeps_sets = true;
  job.join(402, waits);
  job.join(400, holder);
  const auto formed = job.exit(1, "was killed by signal 9");
  CHECK(slots_of(formed) == std::vector<std::int32_t>{0, 2});
  CHECK(formed.roster.must_sync);
}

namespace {

hello with_state(std::int32_t slot, std::uint64_t generation) {
  auto value = from_slot(slot, 1);
  value.keeps_sets = true;
  value.state_generation = generation;
  return value;
}

/// Two members have trained; slot 1 was stuck, and slot 0 trains on alone in generation 2.
membership alone_after_a_stuck_one() {
  auto job = elastic_running(2, 3);
  job.report(100, lost{1, 1, "has made no progress", true});
  job.disconnect(101, "closed its connection");
  REQUIRE(slots_of(job.join(200, with_state(0, 1))) == std::vector{0});
  return job;
}

} // namespace

TEST_CASE("a member with an older state is refused when the last member with the newer state is gone") {
  auto job = alone_after_a_stuck_one();
  job.join(201, with_state(1, 1));
  SECTION("the older member waits") {
    const auto told = job.exit(0, "was killed by signal 9");
    CHECK(told.admissions.empty());
    REQUIRE(told.refusals.size() == 1);
    CHECK_THAT(told.refusals[0].reason.reason,
               Catch::Contains("all members that knew how far the training is"));
  }
  SECTION("the older member was about to get the newer state") {
    job.leave(200, 2);
    REQUIRE(slots_of(job.join(300, with_state(0, 2))) == std::vector{0, 1});
    job.exit(0, "was killed by signal 9");
    const auto told = job.join(301, with_state(1, 1));
    CHECK(told.admissions.empty());
    CHECK(told.refusals.size() == 1);
  }
}

TEST_CASE("a member with an older state waits while the last member with the newer state may come back") {
  auto job = alone_after_a_stuck_one();
  job.join(201, with_state(1, 1));
  job.disconnect(200, "closed its connection");
  CHECK(slots_of(job.join(300, with_state(0, 2))) == std::vector{0, 1});
}

TEST_CASE("a member that was brought to the newer state goes on alone") {
  auto job = alone_after_a_stuck_one();
  job.join(201, with_state(1, 1));
  job.leave(200, 2);
  REQUIRE(job.join(300, with_state(0, 2)).admissions.size() == 2);
  job.exit(0, "was killed by signal 9");
  CHECK(slots_of(job.join(301, with_state(1, 3))) == std::vector{1});
}

TEST_CASE("if no member had the state yet, the survivors of the first generation begin") {
  auto job = elastic_running(2, 2);
  job.exit(0, "was killed by signal 9");
  auto survivor = from_slot(1, 1);
  survivor.keeps_sets = true; // it was in its elastic loop, and no member had got the state
  CHECK(slots_of(job.join(201, survivor)) == std::vector<std::int32_t>{1});
}

TEST_CASE("a member that was never in a generation does not begin anew when the last member is gone") {
  auto job = elastic_running(1, 2);
  job.expect(1);
  job.join(301, from_slot(1, 1));
  const auto told = job.exit(0, "was killed by signal 9");
  CHECK(told.admissions.empty());
  CHECK(told.refusals.empty()); // the launcher ends the process
}

TEST_CASE("members that have all left may begin anew") {
  auto job = elastic_running(2, 2);
  auto again = from_slot(0, 1);
  again.keeps_sets = true;
  again.state_generation = 1;
  job.leave(100, 1);
  job.leave(101, 1);
  job.join(200, again);
  REQUIRE(job.join(201, from_slot(1, 1)).admissions.size() == 2);
  job.leave(200, 2);
  job.leave(201, 2);
  job.join(300, from_slot(0, 1));
  CHECK(job.join(301, from_slot(1, 1)).admissions.size() == 2);
}

TEST_CASE("a member that waits for an impossible generation is refused as soon as that is certain") {
  auto job = elastic_running(3, 3, 2);
  for (const link_id link_id : {100, 101, 102})
    job.leave(link_id, 1);
  job.join(202, from_slot(2, 1));
  job.exit(0, "exited with code 0");
  CHECK(job.no_more_starts().refusals.empty()); // slot 1 has left but lives, and may come again
  const auto told = job.exit(1, "exited with code 0");
  REQUIRE(told.refusals.size() == 1);
  CHECK(told.refusals[0].to == 202);
  CHECK(told.refusals[0].reason.reason.find("no other generation") != std::string::npos);
  CHECK(told.refusals[0].reason.reason.find("2 members that a generation needs (--min-np) 1 is left") !=
        std::string::npos);
  CHECK_FALSE(told.refusals[0].reason.dismissed);
  CHECK(job.join(203, from_slot(2, 1)).refusals.size() == 1);
}

TEST_CASE("a new member is not refused when no process is started any more, but waits for the launcher") {
  auto job = elastic_running(2, 3, 2);
  job.expect(2);
  job.join(302, from_slot(2, 1));
  job.leave(100, 1);
  job.leave(101, 1);
  job.exit(0, "exited with code 0");
  CHECK(job.no_more_starts().refusals.empty());
  CHECK(job.exit(1, "exited with code 0").refusals.empty());
}

TEST_CASE("a member that waits for an impossible first generation is refused") {
  membership job{{.size = 2, .elastic = true, .minimum = 2, .limit = 2}, 1};
  job.expect(0);
  job.expect(1);
  job.join(100, from_slot(0, 2));
  job.exit(1, "exited with code 0");
  CHECK(job.no_more_starts().refusals.size() == 1);
}

TEST_CASE("when no process is started any more, a running job goes on, also with enough survivors") {
  auto job = elastic_running(3, 3, 2);
  CHECK(job.no_more_starts().refusals.empty());
  CHECK(job.exit(0, "exited with code 0").refusals.empty());
  job.join(201, from_slot(1, 1));
  CHECK(slots_of(job.join(202, from_slot(2, 1))) == std::vector{1, 2});
}

TEST_CASE("the first generation does not wait for an ended slot if the remaining members are enough") {
  for (const std::int32_t minimum : {2, 3}) {
    membership job{{.size = 3, .elastic = true, .minimum = minimum, .limit = 3}, 1};
    for (std::int32_t slot = 0; slot < 3; ++slot)
      job.expect(slot);
    job.join(100, from_slot(0, 3));
    CHECK(job.exit(1, "exited with code 3").admissions.empty()); // slot 2 may still come
    const auto last = job.join(102, from_slot(2, 3));
    CHECK(slots_of(last) == (minimum == 2 ? std::vector{0, 2} : std::vector<int>{}));
  }
}

TEST_CASE("all members that lose a member are consequences of its end, and it is not one itself") {
  membership job{{.size = 3}, 1};
  for (const std::int32_t slot : {0, 1, 2})
    job.join(static_cast<link_id>(100 + slot), from_slot(slot, 3));
  using consequence = membership_decision::consequence;
  CHECK(job.exit(1, "was killed by signal 9").consequences ==
        std::vector<consequence>{consequence{0, 1}, consequence{2, 1}});
  CHECK(job.exit(0, "exited with code 1").consequences.empty());
}

TEST_CASE("a member that waits for an ended process, or comes after it, is refused because of it") {
  membership job{{.size = 3}, 1};
  job.join(100, from_slot(0, 3));
  const auto told = job.exit(1, "exited with code 3");
  REQUIRE(told.refusals.size() == 1);
  CHECK(told.refusals[0].reason.culprit == 1);
  REQUIRE(told.consequences.size() == 1);
  CHECK(told.consequences[0] == membership_decision::consequence{0, 1});
  const auto late = job.join(102, from_slot(2, 3));
  REQUIRE(late.refusals.size() == 1);
  CHECK(late.refusals[0].reason.culprit == 1);
  REQUIRE(late.consequences.size() == 1);
  CHECK(late.consequences[0] == membership_decision::consequence{2, 1});
}
