#include "elastic/stuck_rules.hpp"

#include <catch2/catch.hpp>

#include <vector>

#include "messages/settings/settings.hpp"

using namespace farandole;
using namespace std::chrono_literals;

namespace {

stuck_rules rules_of(std::chrono::nanoseconds operation, std::chrono::nanoseconds stuck) {
  stuck_rules rules;
  rules.operation_timeout = operation;
  rules.stuck_timeout = stuck;
  return rules;
}

using silences = std::vector<silence>;

} // namespace

TEST_CASE("an operation is held up when it and a silence have lasted for the operation timeout") {
  const auto rules = rules_of(30s, 0s);
  CHECK_FALSE(rules.holds_up(silences{}, 1h));
  CHECK_FALSE(rules.holds_up(silences{{1, 29s}}, 1h));
  CHECK_FALSE(rules.holds_up(silences{{1, 1h}}, 29s));
  CHECK(rules.holds_up(silences{{1, 30s}}, 30s) == silence{1, 30s});
  CHECK(rules.holds_up(silences{{1, 30s}, {4, 31s}, {5, 3s}}, 1min) == silence{4, 31s});
}

TEST_CASE("a silent member is lost only with a stuck timeout, once it has passed") {
  CHECK_FALSE(rules_of(30s, 0s).lost(silences{{1, 1h}}));
  CHECK_FALSE(rules_of(30s, 5s).lost(silences{{1, 4s}}));
  CHECK_FALSE(rules_of(30s, 5s).lost(silences{}));
  CHECK(rules_of(30s, 5s).lost(silences{{1, 5s}, {2, 6s}}) == silence{2, 6s});
}

TEST_CASE("a member that is late by less than three heartbeats never counts as stuck") {
  const auto rules = rules_of(1ms, 1ms);
  CHECK(rules.minimum() == 3 * rules.period());
  CHECK_FALSE(rules.lost(silences{{1, rules.minimum() - 1ns}}));
  CHECK_FALSE(rules.holds_up(silences{{1, rules.minimum() - 1ns}}, 1h));
  CHECK(rules.lost(silences{{1, rules.minimum()}}));
  CHECK(rules.holds_up(silences{{1, rules.minimum()}}, 1h));
}

TEST_CASE("a failed path is blamed on the longest silent member, soon or after half of the timeout") {
  const auto rules = rules_of(10s, 0s);
  const silences both{{1, 2s}, {2, 5s}, {3, 1s}};
  CHECK(rules.behind_failure(both, true)->rank == 2);
  CHECK(rules.behind_failure(both, false)->rank == 2);
  const silences brief{{1, 2s}, {2, 5s - 1ns}};
  CHECK(rules.behind_failure(brief, true)->rank == 2);
  CHECK_FALSE(rules.behind_failure(brief, false));
  CHECK_FALSE(rules.behind_failure(silences{}, true));
}

TEST_CASE("a failed path is not blamed on a silence that a jump of the clock explains") {
  const auto rules = rules_of(10s, 0s);
  const auto explained = rules.minimum() + 2 * rules.period();
  CHECK_FALSE(rules.behind_failure(silences{{1, explained - 1ns}}, true));
  CHECK(rules.behind_failure(silences{{1, explained}}, true)->rank == 1);
}

TEST_CASE("heartbeats come eight times within the shorter timeout, at most every half second") {
  CHECK(rules_of(30s, 0s).period() == 500ms);
  CHECK(rules_of(30s, 2s).period() == 250ms);
  CHECK(rules_of(800ms, 2s).period() == 100ms);
  CHECK(rules_of(1ms, 1ms).period() == 50ms);
}

TEST_CASE("the stuck timeout has an effect in elastic jobs alone") {
  auto values = settings::built_in();
  REQUIRE_FALSE(values.assign(setting::stuck_timeout, "5", setting_source::environment));
  CHECK(stuck_rules::of(values).stuck_timeout == 0s);
  REQUIRE_FALSE(values.assign(setting::elastic, "1", setting_source::environment));
  CHECK(stuck_rules::of(values).stuck_timeout == 5s);
  CHECK(stuck_rules::of(values).operation_timeout == 30s);
}

TEST_CASE("the errors name the member, its silence and the setting") {
  auto values = settings::built_in();
  REQUIRE_FALSE(values.assign(setting::elastic, "1", setting_source::environment));
  REQUIRE_FALSE(values.assign(setting::stuck_timeout, "5", setting_source::environment));
  const auto rules = stuck_rules::of(values);
  CHECK(rules.loss_complaint({1, 5125ms}) ==
        "has made no progress for 5.1 s: its process is stopped, waits for a disk, or is swapped out; "
        "stuck timeout (FARANDOLE_STUCK_TIMEOUT) = 5 s has passed");
  CHECK(rules.timeout_complaint("rank 1 on alpha", {1, 31s}) ==
        "operations wait for rank 1 on alpha, which has made no progress for 31.0 s: its process is stopped, "
        "waits for a disk, or is swapped out; operation timeout (HOROVOD_GLOO_TIMEOUT_SECONDS) = 30 s has "
        "passed");
}
