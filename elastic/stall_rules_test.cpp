#include "elastic/stall_rules.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

stall_rules rules_of(std::chrono::seconds warning, std::chrono::seconds shutdown) {
  stall_rules rules;
  rules.warning = warning;
  rules.shutdown = shutdown;
  rules.shutdown_setting = "stall shutdown time = " + std::to_string(shutdown.count()) + " s";
  return rules;
}

} // namespace

TEST_CASE("a stall longer than the shutdown time ends the job, and the text marks it", "[stalls]") {
  const auto rules = rules_of(10s, 30s);
  CHECK_FALSE(rules.ignores_shutdown());
  const std::vector<stalled_tensor> stalls{{"old", 31s, {0}}, {"new", 11s, {0, 1}}, {"young", 9s, {2}}};
  const auto reason = rules.shutdown_complaint(stalls, " of process set 3");
  CHECK_THAT(reason, Catch::StartsWith("tensors of process set 3 wait for ranks"));
  CHECK_THAT(reason, Catch::Contains("stall shutdown time = 30 s has passed") &&
                         Catch::EndsWith(":\n0: [old!, new]\n1: [new]"));
  CHECK(rules_of(30s, 30s).shutdown_complaint(stalls, "").empty());
  CHECK(rules_of(10s, 0s).shutdown_complaint(stalls, "").empty());
  CHECK(rules.shutdown_complaint({}, "").empty());
}

TEST_CASE("a stall as long as the shutdown time has not exceeded it", "[stalls]") {
  const auto rules = rules_of(60s, 120s);
  CHECK(rules.shutdown_complaint(std::vector<stalled_tensor>{{"a", 120s, {2}}}, "").empty());
  CHECK_FALSE(rules.shutdown_complaint(std::vector<stalled_tensor>{{"a", 121s, {2}}}, "").empty());
}

TEST_CASE("a shutdown time is ignored if it is not longer than the warning time", "[stalls]") {
  CHECK_FALSE(rules_of(60s, 0s).ignores_shutdown());
  CHECK(rules_of(60s, 1s).ignores_shutdown());
  CHECK(rules_of(60s, 60s).ignores_shutdown());
  CHECK_FALSE(rules_of(60s, 61s).ignores_shutdown());
}

TEST_CASE("every stall is found before the warning time, and its limits are met exactly", "[stalls]") {
  CHECK(rules_of(40s, 0s).next_look(0s) == 10s);
  CHECK(rules_of(3600s, 0s).next_look(0s) == 15s);
  CHECK(rules_of(0s, 0s).next_look(0s) == 50ms);
  const auto rules = rules_of(40s, 50s);
  CHECK(rules.notice_time() == 20s);
  CHECK(rules.next_look(20s) == 10s);
  CHECK(rules.next_look(21s) == 500ms);
  CHECK(rules.next_look(39900ms) == 101ms);
  CHECK(rules.next_look(40s) == 1ms);
  CHECK(rules.next_look(41s) == 500ms);
  CHECK(rules.next_look(49700ms) == 301ms);
  CHECK(rules.next_look(51s) == 500ms);
  CHECK(rules_of(1s, 0s).next_look(2s) == 250ms);
}
