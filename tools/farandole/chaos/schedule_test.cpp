#include "tools/farandole/chaos/schedule.hpp"

#include <catch2/catch.hpp>

#include <set>

using namespace farandole;
using namespace farandole::chaos;
using namespace std::chrono_literals;

namespace {

schedule_options for_a_minute(std::uint64_t seed) {
  schedule_options options;
  options.seed = seed;
  options.every = 2s;
  options.kinds = *parse_kinds("kill,stop,drain,host,rendezvous,link,agent,shell,cut");
  return options;
}

} // namespace

TEST_CASE("the same seed gives the same faults, and another seed gives others", "[chaos]") {
  CHECK(draw_schedule(for_a_minute(7)) == draw_schedule(for_a_minute(7)));
  CHECK(draw_schedule(for_a_minute(7)) != draw_schedule(for_a_minute(8)));
  // A fault that a report names can be repeated on any machine.
  const auto first = draw_schedule(for_a_minute(1)).front();
  CHECK(to_text(first) == to_text({first.kind, first.at, first.lasts, first.victim}));
}

TEST_CASE("faults lie within the duration, at a distance from each other, and last as their row says",
          "[chaos]") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    auto before = 0ms;
    for (const auto& injected : draw_schedule(for_a_minute(seed))) {
      CHECK(injected.at - before >= 1s);
      CHECK(injected.at - before <= 3s);
      CHECK(injected.at < 60s);
      CHECK(injected.lasts >= row_of(injected.kind).shortest);
      CHECK(injected.lasts <= row_of(injected.kind).longest);
      before = injected.at;
    }
  }
}

TEST_CASE("only requested faults are drawn, and each of them is drawn", "[chaos]") {
  auto options = for_a_minute(3);
  options.kinds = *parse_kinds("drain,kill");
  std::set<fault_kind> drawn;
  for (const auto& injected : draw_schedule(options))
    drawn.insert(injected.kind);
  CHECK(drawn == std::set{fault_kind::drain, fault_kind::kill});
}

TEST_CASE("an unknown fault is refused with the list of faults", "[chaos]") {
  CHECK(parse_kinds("stop,stop")->size() == 1);
  const auto none = parse_kinds("kill,flood");
  REQUIRE_FALSE(none);
  CHECK(none.error().text ==
        "there is no fault 'flood'; there are kill, stop, drain, host, rendezvous, link, agent, shell, cut");
  CHECK_FALSE(parse_kinds(""));
}

TEST_CASE("each row of the fault table is at its kind's place", "[chaos]") {
  for (const auto& row : fault_table()) {
    CHECK(row_of(row.kind).name == row.name);
    CHECK((row.needs_network || !row.needs_agents)); // without a network, all hosts are this machine
  }
}
