// The boundary cases of the membership rules: one test for each condition.
#include "elastic/membership_testing.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

using slots = std::vector<std::int32_t>;
using consequences = std::vector<membership_decision::consequence>;

hello of_process(hello value, std::int64_t process) {
  value.process = process;
  return value;
}

/// Checks the content of the warnings that members get of a change.
void check_warning(const membership_decision& decision, std::uint64_t generation, std::uint64_t changes,
                   bool removals_only) {
  REQUIRE_FALSE(decision.change_notices.empty());
  for (const auto& warning : decision.change_notices) {
    CHECK(warning.changed.generation == generation);
    CHECK(warning.changed.count == changes);
    CHECK(warning.changed.removals_only == removals_only);
  }
}

/// All members of an elastic job, from slot 0 on, leave and come again by routes 200 + slot; returns the last
/// decision.
membership_decision start_again(membership& job, std::int32_t size) {
  membership_decision last;
  for (std::int32_t slot = 0; slot < size; ++slot)
    job.leave(static_cast<link_id>(100 + slot), job.generation());
  for (std::int32_t slot = 0; slot < size; ++slot)
    last = job.join(static_cast<link_id>(200 + slot), from_slot(slot, 1));
  return last;
}

} // namespace

TEST_CASE("a member refused because another slot has ended names that slot as the cause, even slot 0") {
  membership job{{.size = 3}, 1};
  job.join(101, from_slot(1, 3));
  CHECK(job.exit(0, "exited with code 1").consequences == consequences{{1, 0}});
  const auto other = job.join(102, from_slot(2, 3));
  REQUIRE(other.refusals.size() == 1);
  CHECK(other.refusals[0].reason.culprit == 0);
  CHECK_FALSE(other.refusals[0].reason.dismissed);
  CHECK(other.consequences == consequences{{2, 0}});
  CHECK(job.join(100, from_slot(0, 3)).consequences.empty()); // the slot's own end
  auto foreign = from_slot(2, 3);
  foreign.wire_version = wire_version + 1;
  CHECK(job.join(103, foreign).consequences.empty());
}

TEST_CASE(
    "only the same process on the same host may say hello again, and only if it was in the generation") {
  membership job{{.size = 2}, 1};
  job.join(100, of_process(from_slot(0, 2), 700));
  CHECK(job.join(200, of_process(from_slot(0, 2), 700)).refusals.size() == 1); // the process waits already
  job.join(101, of_process(from_slot(1, 2), 701));
  REQUIRE(job.running());
  CHECK(job.join(201, of_process(from_slot(1, 2, "b"), 701)).refusals.size() == 1);
  CHECK(job.join(202, of_process(from_slot(1, 2), 702)).refusals.size() == 1);
  CHECK(job.join(203, of_process(from_slot(1, 2), 701)).refusals.empty());
}

TEST_CASE("a generation starts once the last slot that it waits for has left, is retired, or is lost") {
  auto left = elastic_running(2, 2);
  left.retire(1);
  left.leave(100, 1);
  CHECK(slots_of(left.join(200, from_slot(0, 1))).empty());
  CHECK(slots_of(left.leave(101, 1)) == slots{0});
  auto retired = elastic_running(2, 2);
  retired.leave(100, 1);
  retired.leave(101, 1);
  CHECK(slots_of(retired.join(200, from_slot(0, 1))).empty());
  CHECK(slots_of(retired.retire(1)) == slots{0});
  auto lost = elastic_running(2, 2);
  lost.leave(100, 1);
  CHECK(slots_of(lost.join(200, from_slot(0, 1))).empty());
  CHECK(slots_of(lost.disconnect(101, "closed")) == slots{0});
}

TEST_CASE("a slot that never said hello is not waited for by later generations") {
  auto job = elastic_running(2, 3);
  CHECK_FALSE(job.knows(2));
  job.expect(2);
  CHECK(job.knows(2));
  CHECK(slots_of(start_again(job, 2)) == slots{0, 1});
  CHECK(job.slots() == slots{0, 1});
  CHECK(job.generation() == 2);
  for (std::int32_t slot = 0; slot < 2; ++slot)
    job.leave(static_cast<link_id>(200 + slot), 2);
  job.join(300, from_slot(0, 1));
  CHECK(slots_of(job.join(301, from_slot(1, 1))) == slots{0, 1});
}

TEST_CASE("members that start again without a change must sync") {
  auto job = elastic_running(2, 2);
  const auto again = start_again(job, 2);
  REQUIRE(again.admissions.size() == 2);
  CHECK(again.roster.must_sync);
}

TEST_CASE("no member joins the first generation late") {
  membership job{{.size = 2}, 1};
  job.join(100, from_slot(0, 2));
  for (const auto& admission : job.join(101, from_slot(1, 2)).admissions)
    CHECK_FALSE(admission.joined_late);
}

TEST_CASE("changes, and whether all were removals, are counted anew in each generation") {
  auto job = elastic_running(2, 4);
  job.expect(2);
  check_warning(job.join(102, from_slot(2, 1)), 1, 1, false);
  check_warning(job.retire(1), 1, 2, false);
  auto grown = elastic_running(2, 4);
  grown.expect(2);
  grown.join(202, from_slot(2, 1));
  CHECK(slots_of(start_again(grown, 2)) == slots{0, 1, 2});
  check_warning(grown.retire(1), 2, 1, true);
}

TEST_CASE("rank 0 can be reported as lost, and a negative rank cannot") {
  auto job = elastic_running(3, 3);
  CHECK(job.report(101, {1, 0, "unreachable"}).loss_notices.size() == 3);
  CHECK_FALSE(job.running());
  auto misled = elastic_running(3, 3);
  const auto told = misled.report(101, {1, -1, "unreachable"}).loss_notices;
  REQUIRE(told.size() == 3);
  CHECK(told.front().lost.rank == 1); // the rank that sent the report
}

TEST_CASE("the former rank 0 is refused too when no generation can form") {
  auto job = elastic_running(2, 2, 2);
  job.exit(1, "exited with code 1");
  CHECK(job.join(200, from_slot(0, 1)).refusals.empty());
  const auto told = job.no_more_starts();
  REQUIRE(told.refusals.size() == 1);
  CHECK(told.refusals[0].to == 200);
}

TEST_CASE("a member that was lost but lives ranks after all that stayed") {
  auto job = elastic_running(3, 3);
  job.disconnect(101, "closed");
  job.join(201, from_slot(1, 1));
  job.join(200, from_slot(0, 1));
  CHECK(slots_of(job.join(202, from_slot(2, 1))) == slots{0, 2, 1});
}

TEST_CASE("only slots that may still come are missing, not ended or retired ones") {
  membership job{{.size = 2, .elastic = true, .minimum = 1, .limit = 4}, 1};
  for (std::int32_t slot = 0; slot < 4; ++slot)
    job.expect(slot);
  job.join(100, from_slot(0, 1));
  job.exit(1, "exited with code 1");
  CHECK(missing_slots(job) == slots{2, 3});
  job.retire(3);
  CHECK(missing_slots(job) == slots{2});
}
