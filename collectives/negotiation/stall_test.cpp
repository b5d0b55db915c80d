#include "collectives/negotiation/stall.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

TEST_CASE("stalls are listed by missing rank, with at most six names, and overdue ones are marked") {
  std::vector<stall> stalls;
  for (int i = 0; i < 7; ++i)
    stalls.push_back({"t" + std::to_string(i), i < 2 ? 90s : 70s, {3}});
  stalls.push_back({"other", 61s, {1, 3}});
  CHECK(describe(stalls, 80s) == "1: [other]\n3: [t0!, t1!, t2, t3, t4, t5, …]");
  CHECK(describe(std::span(stalls).last(1), 0s) == "1: [other]\n3: [other]");
  CHECK(describe({}, 0s).empty());
}

TEST_CASE("control characters in a stalled tensor's name are escaped") {
  const std::vector<stall> stalls{{"a\n4: [forged]\x1b[2J", 61s, {3}}};
  CHECK(describe(stalls, 0s) == "3: [a\\n4: [forged]\\x1b[2J]");
}

namespace {

stall_rules rules_of(std::chrono::seconds warning, std::chrono::seconds shutdown) {
  stall_rules rules;
  rules.warning = warning;
  rules.shutdown = shutdown;
  rules.warning_setting = "stall warning time = " + std::to_string(warning.count()) + " s";
  rules.shutdown_setting = "stall shutdown time = " + std::to_string(shutdown.count()) + " s";
  return rules;
}

} // namespace

TEST_CASE("a stall is warned of at once, and again after the warning time") {
  auto rules = rules_of(60s, 0s);
  rules.set = " of process set 3";
  CHECK(rules.judge({}, 0s).warning.empty());
  const std::vector<stall> stalls{{"a", 61s, {2}}}, two{{"a", 75s, {2}}, {"b", 61s, {1, 2}}};
  const auto first = rules.judge(stalls, 100s);
  CHECK(first.end.empty());
  CHECK_THAT(first.warning, Catch::Contains("of process set 3") && Catch::Contains("2: [a]") &&
                                Catch::Contains("stall warning time = 60 s"));
  CHECK(rules.judge(stalls, 110s).warning.empty());
  CHECK_THAT(rules.judge(two, 115s).warning, Catch::Contains("1: [b]") && Catch::Contains("2: [a, b]"));
  CHECK(rules.judge(stalls, 174s).warning.empty()); // fewer stalls are no news
  CHECK_FALSE(rules.judge(stalls, 175s).warning.empty());
  CHECK(rules.judge(two, 1000s).end.empty());
}

TEST_CASE("a stall longer than the shutdown time ends the job, and the text marks it") {
  auto rules = rules_of(10s, 30s);
  CHECK_FALSE(rules.ignores_shutdown());
  const std::vector<stall> stalls{{"old", 31s, {0}}, {"new", 11s, {0, 1}}};
  const auto found = rules.judge(stalls, 40s);
  CHECK(found.warning.empty());
  CHECK_THAT(found.end, Catch::Contains("stall shutdown time = 30 s") && Catch::Contains("0: [old!, new]") &&
                            Catch::Contains("1: [new]"));
  CHECK(rules_of(30s, 30s).ignores_shutdown());
  CHECK(rules_of(30s, 30s).judge(stalls, 40s).end.empty());
}

TEST_CASE("stalls are checked four times in the warning time, within bounds") {
  CHECK(rules_of(40s, 0s).period(15s) == 10s);
  CHECK(rules_of(3600s, 0s).period(15s) == 15s);
  CHECK(rules_of(0s, 0s).period(15s) == 50ms);
}

TEST_CASE("a stall as long as a limit has not exceeded it") {
  std::vector<stall> six(6, stall{"t", 80s, {3}});
  CHECK(describe(six, 80s) == "3: [t, t, t, t, t, t]");
  auto rules = rules_of(60s, 120s);
  const auto early = rules.judge(std::vector<stall>{{"a", 120s, {2}}}, 1s);
  CHECK(early.end.empty());
  CHECK_FALSE(early.warning.empty());
  CHECK_FALSE(rules.judge(std::vector<stall>{{"a", 121s, {2}}}, 1s).end.empty());
}

TEST_CASE("known stalls are not warned of again, in any order") {
  auto rules = rules_of(60s, 0s);
  const std::vector<stall> stalls{{"b", 70s, {2}}, {"c", 65s, {2}}, {"a", 61s, {2}}};
  CHECK_FALSE(rules.judge(stalls, 0s).warning.empty());
  CHECK(rules.judge(stalls, 1s).warning.empty());
  CHECK(rules.judge(std::span(stalls).subspan(1), 2s).warning.empty());
  CHECK(rules.judge(std::vector(stalls.rbegin(), stalls.rend()), 3s).warning.empty());
}

TEST_CASE("a shutdown time is ignored if it is not longer than the warning time") {
  CHECK_FALSE(rules_of(60s, 0s).ignores_shutdown());
  CHECK(rules_of(60s, 1s).ignores_shutdown());
  CHECK(rules_of(60s, 60s).ignores_shutdown());
  CHECK_FALSE(rules_of(60s, 61s).ignores_shutdown());
}
