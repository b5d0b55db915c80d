#include "tests/world/simulation.hpp"

#include "actors/event_loop/clock.hpp"

#include <catch2/catch.hpp>

namespace farandole::testing {
namespace {

using namespace std::chrono_literals;

/// Ten actors send one number each to an actor that records their order of arrival. Returns that order.
std::vector<int> order_of(simulation& world) {
  std::vector<int> order;
  auto sink = world.system().spawn(
      [&](caf::event_based_actor*) -> caf::behavior { return {[&](int rank) { order.push_back(rank); }}; });
  for (int i = 0; i < 10; ++i)
    world.system().spawn([=](caf::event_based_actor* self) { self->send(sink, i); });
  REQUIRE(world.run_until_idle());
  caf::anon_send_exit(sink, caf::exit_reason::user_shutdown);
  REQUIRE(world.run_until_idle());
  return order;
}

TEST_CASE("a simulation with the same seed repeats its order and trace; another seed changes both") {
  simulation first{1}, again{1}, other{2};
  auto order = order_of(first);
  CHECK(order == order_of(again));
  CHECK(first.trace_hash() == again.trace_hash());
  CHECK(order != order_of(other));
  CHECK(first.trace_hash() != other.trace_hash());
}

TEST_CASE("an hour of virtual time passes at once, and actors see it on their clock") {
  simulation world{7};
  auto start = world.now();
  instant instant{};
  world.system().spawn([&](caf::event_based_actor* self) -> caf::behavior {
    self->delayed_send(self, 1h, 1);
    return {[&instant, self](int) {
      instant = now(self);
      self->quit();
    }};
  });
  REQUIRE(world.run_until_idle());
  CHECK(instant - start == 1h);
}

TEST_CASE("run_for moves the clock by exactly its argument and fires the timers that are due") {
  simulation world{7};
  auto start = world.now();
  int ticks = 0;
  auto ticker = world.system().spawn([&](caf::event_based_actor* self) -> caf::behavior {
    self->delayed_send(self, 1s, 1);
    return {[&ticks, self](int) {
      ++ticks;
      self->delayed_send(self, 1s, 1);
    }};
  });
  REQUIRE(world.run_for(10500ms));
  CHECK(ticks == 10);
  CHECK(world.now() - start == 10500ms);
  caf::anon_send_exit(ticker, caf::exit_reason::user_shutdown);
  REQUIRE(world.run_until_quiet());
}

TEST_CASE("a livelock hits the step limit") {
  simulation world{7};
  auto loop = world.system().spawn([](caf::event_based_actor* self) -> caf::behavior {
    self->send(self, 1);
    return {[self](int) { self->send(self, 1); }};
  });
  world.step_limit(1000);
  CHECK_FALSE(world.run_until_quiet());
  CHECK(world.steps() == 1000);
  world.step_limit(2000);
  caf::anon_send_exit(loop, caf::exit_reason::kill);
  CHECK(world.run_until_quiet());
}

} // namespace
} // namespace farandole::testing
