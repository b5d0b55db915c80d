// Elastic jobs with unauthenticated peers at their listeners, stopped members and different clocks.
#include "tests/world/elastic_scenarios_testing.hpp"

#include <set>

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

TEST_CASE("elastic scenario: thousands of unauthenticated connections do not delay a regroup") {
  const auto kind = GENERATE(stranger_kind::any, stranger_kind::silent);
  std::chrono::nanoseconds lost{}, together{};
  auto crowded = once(1, a_request, [&](elastic_world& world, std::int32_t, std::int32_t) {
    world.crowd_rendezvous(4096, kind, 10s);
    world.after(2s, [&world] { world.kill(1); });
  });
  auto hears = once(1, a_loss, [&](elastic_world& world, std::int32_t, std::int32_t) { lost = world.now(); });
  auto starts =
      once(2, a_welcome, [&](elastic_world& world, std::int32_t, std::int32_t) { together = world.now(); });
  const auto report = played(calm(3), [=](elastic_world& world, std::int32_t from, std::int32_t to,
                                          const envelope& message) mutable {
    for (auto* entry : {&crowded, &hears, &starts})
      (*entry)(world, from, to, message);
  });
  CHECK(report.code == 0);
  CHECK(report.last_slots == slots{0, 2});
  REQUIRE(together > lost);
  // Unauthenticated peers with a member's address may hold every place for the second that a contended
  // handshake may take.
  CHECK(together - lost < handshake_limits{}.contended + 100ms);
}

TEST_CASE("elastic scenario: members on one machine use the fast path, also after the death of a member") {
  auto options = calm(3);
  options.one_machine = true;
  options.callers_run = GENERATE(false, true);
  const auto report =
      played(options, once(1, a_request, [](elastic_world& world, std::int32_t, std::int32_t) {
               world.after(1s, [&world] { world.kill(1); });
             }));
  CHECK(report.code == 0);
  CHECK(report.last_slots == slots{0, 2});
  CHECK(report.on_fast_path > 100);
}

TEST_CASE("elastic scenario: the job waits for a member that is stopped for a while, and loses no member") {
  for (const auto& [one_machine, callers_run] : {std::pair(false, false), {true, false}, {true, true}}) {
    auto options = calm(3);
    options.one_machine = one_machine;
    options.callers_run = callers_run;
    options.stops_processes = true;
    const auto report =
        played(options, once(1, a_request,
                             [](elastic_world& world, std::int32_t, std::int32_t) { world.stop(1, 40s); }));
    CHECK(report.code == 0);
    CHECK(report.generations == 1);
    CHECK(report.last_slots == slots{0, 1, 2});
  }
}

TEST_CASE("elastic scenario: a member that is stopped during a planned change continues or rejoins late") {
  auto options = calm(4);
  options.stops_processes = true;
  options = with_more(options, 1500ms, {{"host-a", 1}, {"host-b", 1}, {"host-c", 1}});
  const auto report =
      played(options, once(1, wire::Envelope::Body::CHANGED,
                           [](elastic_world& world, std::int32_t, std::int32_t) { world.stop(1, 20s); }));
  CHECK(report.code == 0);
  CHECK(report.finished > 0);
}

TEST_CASE("elastic scenario: the job works although the clocks of its processes differ") {
  auto options = calm(3);
  options.apart = true;
  options.own_clocks = true;
  const auto report = played(options, without_its_rendezvous_for_a_while());
  CHECK(report.code == 0);
  CHECK(report.generations == 2);
  CHECK(report.last_slots == slots{0, 2});
}

TEST_CASE("a simulated process's clock has its offset and drift, and its timers never end early") {
  using time_point = process_clock::time_point;
  for (const std::int64_t ppm : {-1000, 0, 7, 1000})
    for (const auto ahead : {0ns, 86'399'999'999'999ns})
      for (const auto world : {1ns, 1'000'000'007ns, 3'600'000'000'001ns}) {
        const process_clock clock{ahead, ppm};
        const auto local = clock.local(time_point(world));
        CHECK(local - time_point(world) - ahead <= world / 1000);
        CHECK(clock.local(clock.world(local)) >= local);
        CHECK(clock.world(local) - time_point(world) <= 3ns);
      }
}

TEST_CASE("every kind of fault is drawn, and most jobs have no rare faults") {
  std::set<fault_kind> drawn;
  int usual = 0;
  constexpr int jobs = 1000;
  for (std::uint64_t seed = 1; seed <= jobs; ++seed) {
    const auto options = elastic_options::drawn(seed);
    bool rare = options.one_machine || options.own_clocks;
    for (const auto& fault : options.faults) {
      drawn.insert(fault.kind);
      rare = rare || fault.kind >= fault_kind::stopped_process;
    }
    usual += !rare;
  }
  CHECK(drawn.size() == fault_kind_count);
  CHECK(usual > jobs / 2);
}
