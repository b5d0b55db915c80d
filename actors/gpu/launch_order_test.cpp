#include "actors/gpu/launch_order.hpp"

#include <catch2/catch.hpp>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "actors/gpu/launch_clock.hpp"

using namespace farandole;

namespace {

error never() {
  return {};
}

error at_once() {
  return {error_kind::disconnected, "aborted"};
}

using launches = std::vector<set_launches>;

} // namespace

TEST_CASE("the leader states with each bundle those of overlapping sets before it") {
  launch_clock clock;
  clock.open(0, {0, 1, 2, 3});
  clock.open(4, {1, 0});
  clock.open(5, {2, 3});
  CHECK(clock.next(0).empty());
  CHECK(clock.next(4) == launches{{0, 1}});
  CHECK(clock.next(4) == launches{{0, 1}});
  CHECK(clock.next(5) == launches{{0, 1}}); // nothing of 4, with which it has no member in common
  CHECK(clock.next(0) == launches{{4, 2}, {5, 1}});
  clock.close(4);
  CHECK(clock.next(0) == launches{{5, 1}});
}

TEST_CASE("a turn comes when the bundles before it were launched, in whatever order messages are handled") {
  // The leader's order is A1 B1 A2, for sets 1 and 2.
  launch_clock clock;
  clock.open(1, {0, 1});
  clock.open(2, {0, 1});
  const auto before_a1 = clock.next(1), before_b1 = clock.next(2), before_a2 = clock.next(1);
  // This member handles both messages of set 1 first.
  const auto order = std::make_shared<launch_order>();
  order->open(1);
  order->open(2);
  auto a1 = order->take(1, before_a1), a2 = order->take(1, before_a2);
  CHECK_FALSE(a1.wait(never));
  a1.end();
  CHECK(a2.wait(at_once).text == "aborted");
  auto b1 = order->take(2, before_b1);
  std::string launched;
  std::thread lane([&] {
    a2.wait(never);
    launched += "A2";
  });
  CHECK_FALSE(b1.wait(never));
  launched += "B1 ";
  b1.end();
  lane.join();
  CHECK(launched == "B1 A2");
}

TEST_CASE("a bundle that is dropped, and a set that has ended or is none of this member's, hold up nothing") {
  const auto order = std::make_shared<launch_order>();
  order->open(1);
  order->open(2);
  { auto dropped = order->take(1, {}); }
  CHECK_FALSE(order->take(2, {{1, 1}}).wait(never));
  CHECK(order->take(2, {{1, 2}}).wait(at_once));
  CHECK_FALSE(order->take(2, {{9, 100}}).wait(never));
  order->close(1);
  auto freed = order->take(2, {{1, 2}});
  CHECK_FALSE(freed.wait(never));
  freed.end();
  freed.end(); // counts once
  // Three turns of set 2 ended when they were dropped, and this one.
  CHECK_FALSE(order->take(1, {{2, 4}}).wait(at_once));
  CHECK(order->take(1, {{2, 5}}).wait(at_once));
}

TEST_CASE("a wait is interrupted between two looks, and no turn need not be waited for") {
  const auto order = std::make_shared<launch_order>();
  order->open(1);
  int asked = 0;
  const auto problem = order->take(2, {{1, 1}}).wait([&] { return ++asked < 3 ? error{} : at_once(); });
  CHECK(problem.text == "aborted");
  CHECK(asked == 3);
  CHECK_FALSE(launch_turn().wait(at_once));
}
