#include "elastic/drain.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

/// Ranks 0 and 1 on a, rank 2 on b, and on b one worker that is no member yet.
const std::vector<drain_candidate> workers = {{{0, 0, "a"}}, {{1, 3, "a"}}, {{2, 4, "b"}}, {{-1, 5, "b"}}};

drain drain_of(std::vector<std::int32_t> ranks, std::vector<std::string> hosts = {}) {
  return {wire_version, std::move(ranks), std::move(hosts)};
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a drain takes members by rank, and all workers of a host") {
  CHECK(plan_drain(drain_of({1}), workers, 2) == draining{"", {{1, 3, "a"}}, false});
  CHECK(plan_drain(drain_of({}, {"b"}), workers, 2) == draining{"", {{2, 4, "b"}, {-1, 5, "b"}}, false});
  CHECK(plan_drain(drain_of({2, 2}, {"b", "b"}), workers, 2).leavers.size() == 2);
}

TEST_CASE("a drain of an unknown rank or host takes no worker, and lists the known ones") {
  const auto rank = plan_drain(drain_of({1, 7}), workers, 1);
  CHECK(rank.leavers.empty());
  CHECK(rank.problem == "there is no rank 7: the job has ranks 0 to 2");
  CHECK(plan_drain(drain_of({}, {"c"}), workers, 1).problem ==
        "there is no worker on host 'c': the job has workers on a, b");
  CHECK(holds(plan_drain(drain_of({7}), {{{0, 0, "a"}}}, 1).problem, "rank 0 only"));
}

TEST_CASE("a drain that would leave too few members takes no worker, and names both numbers") {
  const auto plan = plan_drain(drain_of({0}, {"b"}), workers, 2);
  CHECK(plan.leavers.empty());
  CHECK(holds(plan.problem, "with 1 of its members"));
  CHECK(holds(plan.problem, "the 2 that it needs (--min-np)"));
}

TEST_CASE("a member that leaves already does not count as remaining, and may be drained again") {
  auto drain_candidates = workers;
  drain_candidates[1].leaves = true;
  CHECK(holds(plan_drain(drain_of({0}), drain_candidates, 2).problem, "with 1 of its members"));
  CHECK(plan_drain(drain_of({1}), drain_candidates, 3).leavers.size() ==
        1); // the same member leaves as before
}

TEST_CASE("before the members are together no worker can be drained") {
  CHECK(holds(plan_drain(drain_of({}, {"b"}), {{{-1, 5, "b"}}}, 1).problem, "not connected yet"));
}

TEST_CASE("a drain is answered when the last of its processes has ended") {
  drain_watch watch;
  watch.add(70, {{1, 3, "a"}, {2, 4, "b"}});
  watch.add(71, {{2, 4, "b"}});
  CHECK(watch.ended(9).empty());
  const auto first = watch.ended(4);
  REQUIRE(first.size() == 1);
  CHECK(first[0].first == 71);
  const auto last = watch.ended(3);
  REQUIRE(last.size() == 1);
  CHECK(last[0].first == 70);
  CHECK(last[0].second.size() == 2);
  CHECK(watch.ended(3).empty());
}
