#include "tools/farandole/chaos/timeline.hpp"

#include <catch2/catch.hpp>

using namespace farandole::chaos;

namespace {

worker_event event(const char* text, double ms, std::int32_t slot, std::uint64_t generation,
                   std::map<std::string, std::int64_t> counters = {}) {
  return {text, ms, 100 + slot, slot, generation, slot, "a", std::move(counters)};
}

const timeline::cause hit{1500, 2500, 1, 1, true};

/// Slots 0, 1 and 2 train in generation 1 from 1000 ms on.
timeline three() {
  timeline history;
  for (int slot : {2, 0, 1}) {
    history.add(event("generation", 990, slot, 1));
    history.add(event("training", 1000, slot, 1));
  }
  return history;
}

} // namespace

TEST_CASE("a worker's event line is read, and other lines are not", "[chaos]") {
  const auto read = parse_event(
      R"({"event": "lost", "ms": 12.5, "pid": 7, "slot": 3, "generation": 2, "rank": 1, "host": "a", "counters": {"step": 9}})");
  REQUIRE(read);
  CHECK(read->text == "lost");
  CHECK(read->ms == 12.5);
  CHECK(read->pid == 7);
  CHECK(read->slot == 3);
  CHECK(read->generation == 2);
  CHECK(read->rank == 1);
  CHECK(read->host == "a");
  CHECK(read->counters.at("step") == 9);
  for (const char* line : {"", "{", "[1]", R"({"event": "x"})", R"({"event": "x", "ms": "soon"})"})
    CHECK_FALSE(parse_event(line));
}

TEST_CASE("the members are the workers that train in the last generation, in order of their ranks",
          "[chaos]") {
  auto history = three();
  CHECK(history.members().size() == 3);
  CHECK(history.members()[2].pid == 102);
  history.add(event("left", 1100, 1, 1));
  CHECK(history.members().size() == 2);
  history.add(event("generation", 1200, 0, 2));
  history.add(event("training", 1210, 0, 2));
  REQUIRE(history.members().size() == 1);
  CHECK(history.members()[0].generation == 2);
  history.add(event("ended", 1300, 0, 2));
  CHECK(history.members().empty());
  CHECK(history.ended() == 1);
  CHECK(history.begun() == 3);
}

TEST_CASE("a loss ends when the last survivor was told and all of them train again", "[chaos]") {
  auto history = three();
  history.add(event("lost", 1520, 0, 1, {{"step", 9}}));
  history.add(event("restored", 1521, 0, 1, {{"step", 8}}));
  history.add(event("lost", 1530, 2, 1, {{"step", 10}}));
  history.add(event("restored", 1531, 2, 1, {{"step", 8}}));
  CHECK_FALSE(history.recovery_of(hit).regrouped_ms);
  history.add(event("training", 1550, 2, 2));
  history.add(event("training", 1560, 0, 2));
  history.add(event("training", 1900, 0, 3));
  const auto got = history.recovery_of(hit);
  CHECK(got.told_ms == 30.0);
  CHECK(got.regrouped_ms == 30.0);
  CHECK(got.steps == 2);
}

TEST_CASE("a planned change costs no step, and a fault without an effect has no time", "[chaos]") {
  auto history = three();
  CHECK_FALSE(history.recovery_of(hit).told_ms);
  CHECK(history.recovery_of(hit).steps == 0);
  for (int slot : {0, 1, 2})
    history.add(event("changed", 1510, slot, 1));
  CHECK(history.recovery_of(hit).steps == 0);
  CHECK(history.recovery_of(hit).told_ms == 10.0);
}

TEST_CASE("if the state counts no steps, the number of lost steps is unknown", "[chaos]") {
  auto history = three();
  history.add(event("lost", 1520, 0, 1, {{"epoch", 3}}));
  history.add(event("restored", 1521, 0, 1, {{"epoch", 2}}));
  CHECK(history.recovery_of(hit).told_ms == 20.0);
  CHECK_FALSE(history.recovery_of(hit).steps);
}

TEST_CASE("the number of commits is that of the member with most", "[chaos]") {
  auto history = three();
  for (double ms : {1490, 1500, 1600, 1700})
    history.add(event("commit", ms, 0, 1));
  history.add(event("commit", 1550, 1, 1));
  CHECK(history.commits_between(1500, 1700) == 2);
  CHECK(history.commits_between(1800, 1900) == 0);
}

TEST_CASE("changes with other causes are not attributed to a fault", "[chaos]") {
  auto history = three();
  for (int slot : {0, 1, 2})
    history.add(event("changed", 1510, slot, 1));
  auto stopped = hit;
  stopped.changes_members = false;
  CHECK_FALSE(history.recovery_of(stopped).told_ms);
  auto earlier = hit;
  earlier.at_ms = 1200;
  earlier.until_ms = 1500;
  CHECK_FALSE(history.recovery_of(earlier).told_ms);
}
