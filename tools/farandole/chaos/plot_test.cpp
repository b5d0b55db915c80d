#include "tools/farandole/chaos/plot.hpp"

#include <catch2/catch.hpp>

using namespace farandole::chaos;

namespace {

worker_event event(const char* text, double ms, std::int32_t slot,
                   std::map<std::string, std::int64_t> counters) {
  return {text, ms, 1, slot, 1, slot, "a", std::move(counters)};
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

} // namespace

TEST_CASE("a rate is that of the member with most steps, repeated steps included", "[chaos]") {
  timeline history;
  for (std::int32_t slot : {0, 1})
    history.add(event("training", 1000, slot, {}));
  history.add(event("commit", 1001, 0, {{"step", 5}})); // a member that joins may begin at any step
  history.add(event("commit", 1500, 1, {{"step", 2}}));
  history.add(event("commit", 2001, 0, {{"step", 25}}));
  history.add(event("restored", 2100, 0, {{"step", 10}}));
  history.add(event("training", 2501, 0, {}));
  history.add(event("commit", 3001, 0, {{"step", 20}}));
  CHECK(step_rates(history, 1001, 500, 4) == std::vector<double>{20, 20, 0, 20});
}

TEST_CASE("if the state counts no steps, commits are counted", "[chaos]") {
  timeline history;
  history.add(event("training", 1000, 0, {}));
  for (double ms : {1250, 1500, 2000})
    history.add(event("commit", ms, 0, {{"epoch", 1}}));
  CHECK(step_rates(history, 1000, 500, 2) == std::vector<double>{4, 2});
}

TEST_CASE("a plot has a line for each run, and marks each fault that hit", "[chaos]") {
  run_result entry;
  entry.begin_ms = 1000;
  entry.end_ms = 3000;
  entry.history.add(event("commit", 1100, 0, {}));
  entry.outcomes.push_back({{fault_kind::kill}, 1500, "rank 1 (slot 1)", "", {20.0, 30.0, 1}});
  entry.outcomes.push_back({{fault_kind::stop}, 2000, "", "left out: the time was over", {}});
  run_result two;
  two.begin_ms = 4000;
  two.end_ms = 4000; // the run ended at once
  two.outcomes.push_back({{fault_kind::rendezvous}, 4000, "the rendezvous", "3 commits meanwhile", {}});
  const auto picture = plot_of(std::vector{entry, two}, "seed 1");
  CHECK(picture.starts_with("<svg "));
  CHECK(picture.ends_with("</svg>\n"));
  CHECK(count_of(picture, "<polyline") == 2);
  CHECK(count_of(picture, "stroke-dasharray") == 2);
  CHECK(count_of(picture, "kill 50 ms") == 1);
  CHECK(count_of(picture, "<text") == count_of(picture, "</text>"));
  CHECK(picture.find("nan") == std::string::npos);
}
