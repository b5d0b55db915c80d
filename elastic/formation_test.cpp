#include "elastic/formation.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

using slots = std::vector<std::int32_t>;

constexpr membership_rules two_to_three{.size = 2, .elastic = true, .minimum = 2, .limit = 3};

/// Each slot has said hello, by link 100 + slot.
void arrive(slot_table& table, const slots& arrivals, std::uint64_t state = 0) {
  for (const auto slot : arrivals) {
    table.expect(slot, {});
    auto& record = table.at(slot);
    record.link = static_cast<link_id>(100 + slot);
    record.announced.slot = slot;
    record.announced.state_generation = state;
  }
}

/// The slots were the members of generation 1, and one was lost; no slot has said hello again.
struct ended_job {
  slot_table table;
  generation_record last;

  explicit ended_job(const slots& members, std::uint64_t state = 0) {
    for (const auto slot : members)
      table.expect(slot, {});
    table.start_generation(members, true);
    for (const auto slot : members)
      table.at(slot).in_generation = false;
    last.start(members, state);
    last.end_by_loss();
  }
};

slots slots_of(const formation_decision& decision) {
  slots found;
  if (decision.start)
    for (const auto& member : decision.start->members)
      found.push_back(member.slot);
  return found;
}

} // namespace

TEST_CASE("the first generation waits for as many members as the job has", "[formation]") {
  const formation rules{two_to_three};
  slot_table table;
  generation_record last;
  arrive(table, {0});
  CHECK_FALSE(rules.decide(table, last).start);
  arrive(table, {4});
  const auto decision = rules.decide(table, last);
  CHECK(slots_of(decision) == slots{0, 4});
  CHECK(decision.start->must_sync);
  CHECK(decision.start->joined_late == std::vector<bool>{false, false});
  CHECK(decision.refusal.empty());
}

TEST_CASE("the first generation is smaller only if a process has ended and no other may come",
          "[formation]") {
  const formation rules{{.size = 3, .elastic = true, .minimum = 2, .limit = 3}};
  slot_table table;
  const generation_record last;
  table.expect(2, {});
  arrive(table, {0, 1});
  CHECK_FALSE(rules.decide(table, last).start);
  table.end_process(2, "exited with code 1");
  CHECK(slots_of(rules.decide(table, last)) == slots{0, 1});
  table.expect(3, {});
  CHECK_FALSE(rules.decide(table, last).start);
}

TEST_CASE("a job that is not elastic always has exactly its size", "[formation]") {
  const formation rules{{.size = 3, .minimum = 1, .limit = 9}};
  CHECK(rules.rules().minimum == 3);
  CHECK(rules.rules().limit == 3);
}

TEST_CASE("no generation forms while one runs", "[formation]") {
  const formation rules{two_to_three};
  slot_table table;
  generation_record last;
  arrive(table, {0, 1});
  last.start({0, 1}, 0);
  CHECK_FALSE(rules.decide(table, last).start);
  CHECK(rules.missing(table, last).arrived == 0);
}

TEST_CASE("a lost member is waited for until it is given up", "[formation]") {
  const formation rules{two_to_three};
  ended_job job{{0, 1, 2}};
  arrive(job.table, {0, 2}, 1);
  CHECK_FALSE(rules.decide(job.table, job.last).start);
  CHECK(rules.missing(job.table, job.last) == awaited{0, 2, 3, false, {{1, ""}}});
  job.table.give_up_missing(false);
  CHECK(slots_of(rules.decide(job.table, job.last)) == slots{0, 2});
}

TEST_CASE("if too few members have come, every process that may come is missing", "[formation]") {
  const formation rules{two_to_three};
  ended_job job{{0, 1, 2}};
  job.table.give_up_missing(false);
  job.table.end_process(2, "exited with code 1");
  CHECK(rules.missing(job.table, job.last) == awaited{0, 0, 2, false, {{0, ""}, {1, ""}}});
  arrive(job.table, {0});
  job.table.expect(1, "node1");
  CHECK(rules.missing(job.table, job.last) == awaited{0, 1, 2, false, {{1, "node1"}}});
  arrive(job.table, {5});
  CHECK(rules.missing(job.table, job.last) == awaited{0, 2, 2, false, {}});
}

TEST_CASE("members with the newest state rank first, and the others join late", "[formation]") {
  const formation rules{two_to_three};
  ended_job job{{0, 1}};
  arrive(job.table, {0});
  arrive(job.table, {1}, 1);
  const auto decision = rules.decide(job.table, job.last);
  CHECK(slots_of(decision) == slots{1, 0});
  CHECK(decision.start->joined_late == std::vector<bool>{false, true});
  CHECK(decision.start->state_generation == 1);
}

TEST_CASE("a member that begins anew ranks after members that keep their process sets", "[formation]") {
  const formation rules{two_to_three};
  ended_job job{{0, 1}};
  arrive(job.table, {0, 1}, 1);
  job.table.at(1).announced.keeps_sets = true;
  const auto decision = rules.decide(job.table, job.last);
  CHECK(slots_of(decision) == slots{1, 0});
  CHECK(decision.start->sets.kept);
}

TEST_CASE("a generation has at most the limit of members, and prefers the oldest", "[formation]") {
  const formation rules{two_to_three};
  ended_job job{{7, 8}};
  arrive(job.table, {7, 8}, 1);
  arrive(job.table, {0, 1});
  CHECK(slots_of(rules.decide(job.table, job.last)) == slots{7, 8, 0});
}

TEST_CASE("members sync unless some only left and the rest are at the same step", "[formation]") {
  const formation rules{two_to_three};
  ended_job job{{0, 1, 2}};
  job.last.start({0, 1, 2}, 1);
  job.last.change(true);
  job.last.end_in_order();
  job.table.at(2).retired = true;
  job.table.at(2).awaited = false;
  arrive(job.table, {0, 1}, 2);
  CHECK_FALSE(rules.decide(job.table, job.last).start->must_sync);
  job.table.at(1).announced.progress = 5;
  CHECK(rules.decide(job.table, job.last).start->must_sync);
  job.table.at(0).announced.progress = 5;
  CHECK_FALSE(rules.decide(job.table, job.last).start->must_sync);
  arrive(job.table, {3});
  CHECK(rules.decide(job.table, job.last).start->must_sync);
}

TEST_CASE("members without state wait for members that have it, and are refused when none can return",
          "[formation]") {
  const formation rules{two_to_three};
  ended_job job{{0, 1}, 1};
  job.table.give_up_missing(false);
  job.table.at(0).last_rank = job.table.at(1).last_rank = -1;
  arrive(job.table, {4, 5});
  const auto hopeful = rules.decide(job.table, job.last);
  CHECK_FALSE(hopeful.start);
  CHECK(hopeful.refusal.empty());
  job.table.end_process(0, "exited with code 1");
  CHECK(rules.decide(job.table, job.last).refusal.empty());
  job.table.end_process(1, "exited with code 1");
  CHECK_THAT(rules.decide(job.table, job.last).refusal, Catch::StartsWith("all members that knew how far"));
}

TEST_CASE("members are refused if the job's state is lost, but not if there was none", "[formation]") {
  const formation rules{two_to_three};
  ended_job stateless{{0, 1}};
  arrive(stateless.table, {0, 1});
  CHECK(rules.decide(stateless.table, stateless.last).start);
  ended_job job{{0, 1}, 1};
  arrive(job.table, {0, 1});
  CHECK_FALSE(rules.decide(job.table, job.last).start);
  CHECK_FALSE(rules.decide(job.table, job.last).refusal.empty());
}

TEST_CASE("a lost member that returns without state shows that no member has trained", "[formation]") {
  const formation rules{two_to_three};
  ended_job job{{0, 1}};
  job.table.give_up_missing(false);
  job.table.at(0).last_rank = job.table.at(1).last_rank = -1;
  arrive(job.table, {4, 5});
  CHECK_FALSE(rules.decide(job.table, job.last).start);
  arrive(job.table, {1});
  CHECK(slots_of(rules.decide(job.table, job.last)) == slots{1, 4, 5});
}

TEST_CASE("once no process is started any more, too few remaining members are refused", "[formation]") {
  formation rules{two_to_three};
  ended_job job{{0, 1, 2}};
  arrive(job.table, {0}, 1);
  job.table.at(2).retired = true;
  rules.no_more_starts();
  CHECK(rules.decide(job.table, job.last).refusal.empty());
  job.table.end_process(1, "exited with code 0");
  CHECK_THAT(rules.decide(job.table, job.last).refusal,
             Catch::EndsWith("of the 2 members that a generation needs (--min-np) 1 is left"));
}

TEST_CASE("a generation of workers that serve calls has all processes that were started", "[formation]") {
  const formation rules{{.size = 2, .elastic = true, .minimum = 1, .limit = 9, .serves_calls = true}};
  ended_job job({0, 1});
  job.table.expect(2, {});
  job.table.end_process(1, "was killed by signal 9");
  arrive(job.table, {0});
  CHECK_FALSE(rules.decide(job.table, job.last).start);
  const auto missing = rules.missing(job.table, job.last);
  REQUIRE(missing.missing.size() == 1);
  CHECK(missing.missing.front().slot == 2);
  arrive(job.table, {2});
  CHECK(slots_of(rules.decide(job.table, job.last)) == slots{0, 2});
  job.table.expect(3, {});
  job.table.at(3).retired = true; // leaves, so that it is not waited for
  CHECK(slots_of(rules.decide(job.table, job.last)) == slots{0, 2});
}

TEST_CASE("workers that serve calls go on although all members with the newest state were lost",
          "[formation]") {
  auto serving = two_to_three;
  ended_job job({0, 1}, 5);
  for (const auto slot : {0, 1})
    job.table.end_process(slot, "was killed by signal 9");
  arrive(job.table, {2, 3});
  CHECK_FALSE(formation{serving}.decide(job.table, job.last).start);
  serving.serves_calls = true;
  CHECK(slots_of(formation{serving}.decide(job.table, job.last)) == slots{2, 3});
}
