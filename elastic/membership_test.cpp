#include "elastic/membership_testing.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

// Routes are 100 + slot in the first generation.
membership three_running() {
  membership job{{.size = 3}, 1};
  for (std::int32_t slot = 0; slot < 3; ++slot)
    job.join(static_cast<link_id>(100 + slot), from_slot(slot, 3));
  return job;
}

} // namespace

TEST_CASE("a generation starts when the last slot has said hello, and not before") {
  membership job{{.size = 2}, 7};
  auto first = job.join(11, from_slot(1, 2));
  CHECK(first.admissions.empty());
  CHECK(missing_slots(job) == std::vector<std::int32_t>{0});
  auto second = job.join(10, from_slot(0, 2));
  REQUIRE(second.admissions.size() == 2);
  CHECK(second.admissions[0].to == 10);
  CHECK(second.admissions[0].rank == 0);
  CHECK(second.admissions[1].rank == 1);
  CHECK(second.roster.generation == 1);
  CHECK(second.roster.epoch == 7);
  CHECK(second.roster.members[1].address == "127.0.0.1:5001");
}

TEST_CASE("missing members are listed with their hosts while others wait") {
  membership job{{.size = 3}, 1};
  CHECK_FALSE(job.forming());
  job.expect(1, "node1");
  job.join(12, from_slot(2, 3));
  CHECK(job.forming());
  CHECK(job.waiting() == std::map<std::int32_t, link_id>{{2, 12}});
  CHECK(job.missing() == awaited{0, 1, 3, false, {{0, ""}, {1, "node1"}}});
  job.join(11, from_slot(1, 3));
  job.join(10, from_slot(0, 3));
  CHECK_FALSE(job.forming());
  // A slot that has been in a generation is listed with the host from its hello.
  job.leave(10, 1);
  job.leave(11, 1);
  job.leave(12, 1);
  CHECK_FALSE(job.forming());
  job.join(20, from_slot(0, 3));
  CHECK(job.missing() == awaited{0, 1, 3, false, {{1, "node1"}, {2, "a"}}});
}

TEST_CASE("only the first of many missing members are listed, and all are counted") {
  membership job{{.size = 1000}, 1};
  job.join(1, from_slot(0, 1000));
  CHECK(job.missing().missing.size() == awaited_limit);
  CHECK(job.missing().size == 1000);
}

TEST_CASE("local and cross ranks follow the hosts") {
  membership job{{.size = 5}, 1};
  const char* hosts[] = {"a", "b", "a", "b", "a"};
  membership_decision last;
  for (std::int32_t slot = 0; slot < 5; ++slot)
    last = job.join(static_cast<link_id>(slot), from_slot(slot, 5, hosts[slot]));
  auto& members = last.roster.members;
  CHECK(members[2].local_rank == 1);
  CHECK(members[2].local_size == 3);
  CHECK(members[3].local_rank == 1);
  CHECK(members[3].local_size == 2);
  CHECK(members[3].cross_rank == 1);
  CHECK(members[3].cross_size == 2);
  CHECK(members[4].cross_size == 1);
}

TEST_CASE("a lost member ends the generation for all others, and is reported once") {
  auto job = three_running();
  auto told = job.exit(1, "was killed by signal 9");
  REQUIRE(told.loss_notices.size() == 2);
  CHECK(told.loss_notices[0].to == 100);
  CHECK(told.loss_notices[1].to == 102);
  CHECK(told.loss_notices[0].lost.rank == 1);
  CHECK(told.loss_notices[0].lost.reason == "was killed by signal 9");
  CHECK(job.disconnect(101, "closed").loss_notices.empty());
  CHECK_FALSE(job.running());
}

TEST_CASE("leaving in order is no loss, even when the process then ends") {
  auto job = three_running();
  job.leave(101, 1);
  CHECK(job.disconnect(101, "closed").loss_notices.empty());
  CHECK(job.exit(1, "exited with code 0").loss_notices.empty());
  CHECK(job.running());
}

TEST_CASE("a process may say hello again before its farewell has arrived") {
  membership job{{.size = 2}, 1};
  hello again[] = {from_slot(0, 2), from_slot(1, 2)};
  for (std::int32_t slot = 0; slot < 2; ++slot) {
    again[slot].process = 700 + slot;
    job.join(static_cast<link_id>(100 + slot), again[slot]);
  }
  CHECK(job.join(201, again[1]).refusals.empty());
  job.leave(101, 1); // the farewell is late, and comes by the replaced link
  CHECK(job.disconnect(101, "closed").loss_notices.empty());
  job.leave(100, 1);
  auto formed = job.join(200, again[0]);
  REQUIRE(formed.admissions.size() == 2);
  CHECK(formed.admissions[1].to == 201);
  CHECK(job.generation() == 2);
}

TEST_CASE("another process is refused while a slot is taken, even with the same process number") {
  membership job{{.size = 2}, 1};
  auto first = from_slot(1, 2);
  first.process = 700;
  job.join(101, first);
  auto other = from_slot(1, 2, "b");
  other.process = 700;
  CHECK(job.join(102, other).refusals.size() == 1);
}

TEST_CASE("a link belongs to its slot until the member has left") {
  auto job = three_running();
  CHECK(job.slot_of(101) == 1);
  CHECK_FALSE(job.slot_of(7));
  job.leave(101, 1);
  CHECK_FALSE(job.slot_of(101));
}

TEST_CASE("after all have left, the same slots form the next generation") {
  auto job = three_running();
  for (link_id r : {100, 101, 102})
    job.leave(r, 1);
  job.join(200, from_slot(0, 3));
  job.join(201, from_slot(1, 3));
  auto last = job.join(202, from_slot(2, 3));
  REQUIRE(last.admissions.size() == 3);
  CHECK(last.roster.generation == 2);
}

TEST_CASE("a member that left and says hello again waits until the others have left too") {
  auto job = three_running();
  job.leave(100, 1);
  CHECK(job.join(200, from_slot(0, 3)).admissions.empty());
  job.leave(101, 1);
  CHECK(job.join(201, from_slot(1, 3)).admissions.empty());
  job.leave(102, 1);
  CHECK(job.join(202, from_slot(2, 3)).admissions.size() == 3);
}

TEST_CASE("invalid hellos are refused with the reason") {
  auto job = three_running();
  auto refusal = [&](hello request) { return job.join(999, request).refusals.at(0).reason.reason; };
  auto other_version = from_slot(0, 3);
  other_version.wire_version = 99;
  CHECK_THAT(refusal(other_version), Catch::Contains("wire version 99"));
  CHECK_THAT(refusal(from_slot(0, 4)), Catch::Contains("expects 4 members"));
  CHECK_THAT(refusal(from_slot(3, 3)), Catch::Contains("slot 3 is not in 0..2"));
  CHECK_THAT(refusal(from_slot(1, 3)), Catch::Contains("slot 1 is taken"));
}

TEST_CASE("once a process has ended, members that wait for the next generation are refused") {
  auto job = three_running();
  for (link_id r : {100, 101, 102})
    job.leave(r, 1);
  job.join(200, from_slot(0, 3));
  auto told = job.exit(2, "exited with code 3");
  REQUIRE(told.refusals.size() == 1);
  CHECK(told.refusals[0].to == 200);
  CHECK_THAT(told.refusals[0].reason.reason, Catch::Contains("slot 2 exited with code 3"));
  CHECK_THAT(job.join(201, from_slot(1, 3)).refusals.at(0).reason.reason,
             Catch::Contains("slot 2 exited with code 3"));
}

TEST_CASE("a member that reports a broken generation ends it for all") {
  auto job = three_running();
  auto told = job.report(102, lost{1, 2, "its lane failed"});
  CHECK(told.loss_notices.size() == 3);
  CHECK(job.report(100, lost{0, 0, "late"}).loss_notices.empty());
}

// ---- elastic jobs ----------------------------------------------------------------------------------

TEST_CASE("survivors form the next generation in their old order once the last of them has come") {
  auto job = elastic_running(4, 4);
  auto told = job.exit(1, "was killed by signal 9");
  CHECK(told.loss_notices.size() == 3);
  CHECK(job.join(203, from_slot(3, 1)).admissions.empty());
  CHECK(job.join(200, from_slot(0, 1)).admissions.empty());
  CHECK(missing_slots(job) == std::vector<std::int32_t>{2});
  auto formed = job.join(202, from_slot(2, 1));
  CHECK(slots_of(formed) == std::vector{0, 2, 3});
  CHECK(formed.roster.generation == 2);
  CHECK(formed.roster.must_sync);
  CHECK_FALSE(formed.admissions[0].joined_late);
}

TEST_CASE("elastic: members that the launcher has not started yet are counted as missing") {
  membership job{{.size = 3, .elastic = true, .minimum = 1, .limit = 3}, 1};
  job.expect(0, "node0");
  job.expect(1, "node1");
  job.join(10, from_slot(0, 1));
  CHECK(job.missing() == awaited{0, 1, 3, false, {{1, "node1"}}});
}

TEST_CASE("elastic: a new worker is not missing if enough members have come") {
  auto job = elastic_running(3, 4);
  job.expect(3);
  job.exit(1, "was killed by signal 9");
  job.join(200, from_slot(0, 1));
  CHECK(missing_slots(job) == std::vector<std::int32_t>{2});
}

TEST_CASE("when rank 0 is lost, the oldest survivor becomes rank 0") {
  auto job = elastic_running(3, 3);
  job.exit(0, "was killed by signal 9");
  job.join(202, from_slot(2, 1));
  CHECK(slots_of(job.join(201, from_slot(1, 1))) == std::vector{1, 2});
}

TEST_CASE("a survivor that ends before it comes again is not waited for") {
  auto job = elastic_running(3, 3);
  job.exit(0, "was killed by signal 9");
  CHECK(job.join(201, from_slot(1, 1)).admissions.empty());
  CHECK(slots_of(job.exit(2, "exited with code 1")) == std::vector{1});
}

TEST_CASE("too few members wait for others, which may be new but must have been started") {
  auto job = elastic_running(2, 3, 2);
  job.exit(1, "was killed by signal 9");
  CHECK(job.join(200, from_slot(0, 1)).admissions.empty());
  CHECK(job.join(207, from_slot(7, 1)).refusals.at(0).reason.reason ==
        "slot 7 was not started by this job's launcher");
  job.expect(7);
  auto formed = job.join(207, from_slot(7, 1));
  CHECK(slots_of(formed) == std::vector{0, 7});
  REQUIRE(formed.admissions.size() == 2);
  CHECK(formed.admissions[1].joined_late);
  CHECK_FALSE(formed.admissions[0].joined_late);
}

TEST_CASE("a new member waits until the members leave together, and they are warned") {
  auto job = elastic_running(2, 3);
  job.expect(2);
  auto told = job.join(302, from_slot(2, 1));
  REQUIRE(told.change_notices.size() == 2);
  CHECK(told.change_notices[0].changed == changed{1, 1, false});
  job.leave(101, 1);
  CHECK(job.join(201, from_slot(1, 1)).admissions.empty());
  job.leave(100, 1);
  auto formed = job.join(200, from_slot(0, 1));
  CHECK(slots_of(formed) == std::vector{0, 1, 2});
  CHECK(formed.roster.must_sync);
  CHECK(formed.admissions.at(2).joined_late);
}

TEST_CASE("a member that says hello again before the last farewell is not new, and no sync is needed") {
  auto job = elastic_running(3, 3);
  job.retire(1);
  job.leave(100, 1);
  CHECK(job.join(200, from_slot(0, 1)).change_notices.empty());
  job.leave(101, 1);
  job.leave(102, 1);
  auto formed = job.join(202, from_slot(2, 1));
  CHECK(slots_of(formed) == std::vector{0, 2});
  CHECK_FALSE(formed.roster.must_sync);
}

TEST_CASE("no warning is sent for a new member that has no room") {
  auto job = elastic_running(2, 2);
  job.expect(2);
  CHECK(job.join(302, from_slot(2, 1)).change_notices.empty());
  job.exit(0, "was killed by signal 9");
  CHECK(slots_of(job.join(201, from_slot(1, 1))) == std::vector{1, 2});
}

TEST_CASE("a retired slot leaves with the others and is dismissed, and no sync is needed") {
  auto job = elastic_running(3, 3);
  auto told = job.retire(1);
  REQUIRE(told.change_notices.size() == 3);
  CHECK(told.change_notices[0].changed == changed{1, 1, true});
  CHECK(job.retire(1).change_notices.empty());
  for (link_id r : {100, 101, 102})
    job.leave(r, 1);
  auto decision = job.join(201, from_slot(1, 1));
  REQUIRE(decision.refusals.size() == 1);
  CHECK(decision.refusals[0].reason.dismissed);
  job.join(200, from_slot(0, 1));
  auto formed = job.join(202, from_slot(2, 1));
  CHECK(slots_of(formed) == std::vector{0, 2});
  CHECK_FALSE(formed.roster.must_sync);
}

TEST_CASE("members at different steps must sync, even after removals alone") {
  auto job = elastic_running(3, 3);
  job.retire(2);
  for (link_id r : {100, 101, 102})
    job.leave(r, 1);
  auto rolled_back = from_slot(1, 1);
  rolled_back.progress = 7;
  job.join(201, rolled_back);
  CHECK(job.join(200, from_slot(0, 1)).roster.must_sync);
}

TEST_CASE("after a removal and a loss at the same time all must sync") {
  auto job = elastic_running(3, 3);
  job.retire(2);
  job.exit(0, "was killed by signal 9");
  auto formed = job.join(201, from_slot(1, 1));
  CHECK(slots_of(formed) == std::vector{1}); // slot 2 is not waited for
  CHECK(formed.roster.must_sync);
  CHECK(job.join(202, from_slot(2, 1)).refusals.at(0).reason.dismissed);
}

TEST_CASE("a waiting member that is retired is dismissed at once") {
  auto job = elastic_running(1, 2);
  job.expect(1);
  job.join(301, from_slot(1, 1));
  CHECK(job.retire(1).refusals.at(0).reason.dismissed);
}

TEST_CASE("a reported member that lives is waited for, and one whose link ended is not") {
  auto job = elastic_running(3, 3);
  CHECK(job.report(101, lost{1, 2, "closed its connection"}).loss_notices.size() == 3);
  job.join(200, from_slot(0, 1));
  CHECK(job.join(201, from_slot(1, 1)).admissions.empty());
  CHECK(slots_of(job.join(202, from_slot(2, 1))) == std::vector{0, 1, 2});

  CHECK(job.disconnect(202, "closed its connection").loss_notices.size() == 2);
  job.join(300, from_slot(0, 1));
  CHECK(slots_of(job.join(301, from_slot(1, 1))) == std::vector{0, 1});
}

TEST_CASE("a stuck member is not waited for, and comes later as a new one") {
  auto job = elastic_running(3, 3);
  CHECK(job.report(101, lost{1, 0, "has made no progress", true}).loss_notices.size() == 3);
  CHECK(job.join(202, from_slot(2, 1)).admissions.empty());
  CHECK(missing_slots(job) == std::vector<std::int32_t>{1});
  CHECK(slots_of(job.join(201, from_slot(1, 1))) == std::vector{1, 2});
  // The member continues, learns that it is out, and comes again.
  CHECK(job.disconnect(100, "closed its connection").loss_notices.empty());
  CHECK(job.join(300, from_slot(0, 1)).change_notices.size() == 2);
  job.leave(201, 2);
  job.leave(202, 2);
  job.join(301, from_slot(1, 1));
  CHECK(slots_of(job.join(302, from_slot(2, 1))) == std::vector{1, 2, 0});
}

TEST_CASE("a member reported as stuck that says hello before the others is in the next generation, last") {
  auto job = elastic_running(3, 3);
  job.report(101, lost{1, 0, "has made no progress", true});
  CHECK(job.join(200, from_slot(0, 1)).admissions.empty());
  CHECK(job.join(201, from_slot(1, 1)).admissions.empty());
  CHECK(slots_of(job.join(202, from_slot(2, 1))) == std::vector{1, 2, 0});
}

TEST_CASE("a late report does not make a member stuck that has left and said hello again") {
  auto job = elastic_running(2, 2);
  auto again = from_slot(0, 1);
  job.leave(100, 1);
  job.join(200, again);
  CHECK(job.report(101, lost{1, 0, "has made no progress", true}).loss_notices.empty());
  job.leave(101, 1);
  CHECK(slots_of(job.join(201, from_slot(1, 1))) == std::vector{0, 1});
}

TEST_CASE("a job that is not elastic waits for its stuck member") {
  auto job = three_running();
  CHECK(job.report(101, lost{1, 0, "has made no progress", true}).loss_notices.size() == 3);
  job.join(201, from_slot(1, 3));
  CHECK(job.join(202, from_slot(2, 3)).admissions.empty());
  CHECK(missing_slots(job) == std::vector<std::int32_t>{0});
}

TEST_CASE("a member given up for its absence is not waited for, and comes later as a new one") {
  auto job = elastic_running(3, 3);
  job.exit(0, "was killed by signal 9");
  CHECK(job.join(201, from_slot(1, 1)).admissions.empty());
  CHECK(job.give_up_waiting(0).admissions.empty());
  CHECK(slots_of(job.give_up_waiting(1)) == std::vector{1});
  CHECK(job.join(202, from_slot(2, 1)).change_notices.size() == 1);
  CHECK(job.give_up_waiting(1).admissions.empty());
}

TEST_CASE("a survivor that is lost before the next generation forms is not waited for") {
  auto job = elastic_running(4, 4);
  job.exit(3, "was killed by signal 9");
  job.join(200, from_slot(0, 1));
  job.join(201, from_slot(1, 1));
  CHECK(job.disconnect(201, "closed its connection").loss_notices.empty());
  CHECK(slots_of(job.join(202, from_slot(2, 1))) == std::vector{0, 2});
}

TEST_CASE("the welcome has the survivors' process sets, also for new members") {
  auto job = elastic_running(2, 3);
  job.expect(2);
  job.join(302, from_slot(2, 1));
  job.leave(101, 1);
  job.join(201, with_set_of_one(1));
  job.leave(100, 1);
  const auto formed = job.join(200, with_set_of_one(0));
  REQUIRE(formed.admissions.size() == 3);
  CHECK(formed.roster.sets_kept);
  CHECK(formed.roster.sets == std::vector<kept_set>{{{0, false, 0}, 1, {1}}});
}

TEST_CASE("process sets in the hello of a new process are ignored") {
  auto job = elastic_running(1, 2);
  job.expect(1);
  auto stranger = from_slot(1, 1);
  stranger.keeps_sets = true;
  stranger.sets = {{{0, false, 0}, 1, {1}}};
  job.join(301, stranger);
  job.leave(100, 1);
  const auto formed = job.join(200, from_slot(0, 1));
  REQUIRE(formed.admissions.size() == 2);
  CHECK_FALSE(formed.roster.sets_kept);
  CHECK(formed.roster.sets.empty());
}

TEST_CASE("a member that comes again after its link was lost ends the generation for the others") {
  membership job{{.size = 3, .elastic = true, .minimum = 1, .limit = 3}, 1};
  std::vector<hello> again;
  for (std::int32_t slot = 0; slot < 3; ++slot) {
    job.expect(slot);
    again.push_back(from_slot(slot, 1));
    again.back().process = 700 + slot;
    job.join(static_cast<link_id>(100 + slot), again.back());
  }
  CHECK(
      job.join(202, again[2]).loss_notices.empty()); // the member may have left: its farewell may still come
  const auto told = job.disconnect(102, "closed its connection");
  REQUIRE(told.loss_notices.size() == 2);
  CHECK(told.loss_notices[0].lost.rank == 2);
  CHECK(told.loss_notices[1].to == 101);
  CHECK_FALSE(job.running());
  job.join(200, again[0]);
  const auto formed = job.join(201, again[1]);
  CHECK(slots_of(formed) == std::vector{0, 1, 2});
  CHECK(formed.roster.must_sync);
  CHECK(job.disconnect(102, "closed").loss_notices.empty());
}

TEST_CASE("a report about an ended generation does not end a later one") {
  auto job = elastic_running(2, 2);
  for (const link_id link_id : {100, 101})
    job.leave(link_id, 1);
  job.join(200, from_slot(0, 1));
  REQUIRE(job.join(201, from_slot(1, 1)).roster.generation == 2);
  CHECK(job.report(200, {1, 1, "closed its connection"}).loss_notices.empty());
  CHECK(job.running());
  CHECK(job.report(200, {2, 1, "closed its connection"}).loss_notices.size() == 2);
}
