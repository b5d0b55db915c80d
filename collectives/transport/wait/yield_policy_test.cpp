#include "collectives/transport/wait/yield_policy.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

unsigned skipped(yield_policy& policy) {
  unsigned count = 0;
  while (!policy.pays())
    ++count;
  return count;
}

constexpr yield_policy::report quick{microseconds(3), microseconds(1), true};
constexpr yield_policy::report slice{milliseconds(4), milliseconds(4), true};
constexpr yield_policy::report switched{microseconds(10), microseconds(9), true};

} // namespace

TEST_CASE("after a lost time slice some waits sleep, and more of them if it happens again") {
  yield_policy policy(true);
  CHECK(skipped(policy) == 0);
  policy.saw(quick);
  CHECK(skipped(policy) == 0);
  policy.saw(slice);
  CHECK(skipped(policy) == 80);
  policy.saw(slice);
  CHECK(skipped(policy) == 160);
  policy.saw(quick);
  policy.saw(slice);
  CHECK(skipped(policy) == 80);
  for (int i = 0; i < 40; ++i)
    policy.saw({std::chrono::seconds(1), std::chrono::seconds(1), false});
  CHECK(skipped(policy) == 4096);
}

TEST_CASE("a small loss of time makes few waits sleep") {
  yield_policy policy(true);
  policy.saw({microseconds(300), microseconds(300), true});
  CHECK(skipped(policy) == 6);
}

TEST_CASE("members on one core move after a while if each could have its own core") {
  using advice = yield_policy::advice;
  yield_policy policy(true, 4);
  const auto meetings_until_move = [&] {
    unsigned count = 1;
    while (policy.saw(switched) == advice::stay)
      ++count;
    return count;
  };
  CHECK(meetings_until_move() == 4);
  CHECK(meetings_until_move() == 8); // the move did not help
  CHECK(meetings_until_move() == 16);
  CHECK(policy.saw(quick) == advice::stay);
  CHECK(meetings_until_move() == 4);
  for (int i = 0; i < 100; ++i) {
    CHECK(policy.saw(switched) == advice::stay);
    CHECK(policy.saw(quick) == advice::stay);
  }
  CHECK(skipped(policy) == 0);
}

TEST_CASE("members with less than one core each stay on their core and continue to yield") {
  yield_policy policy(false, 4);
  for (int i = 0; i < 100; ++i) {
    CHECK(policy.saw(switched) == yield_policy::advice::stay);
    CHECK(policy.saw(slice) == yield_policy::advice::stay);
  }
  CHECK(skipped(policy) == 0);
}

TEST_CASE("members that lose time slices to each other move sooner") {
  yield_policy policy(true, 2 * yield_policy::least_meetings);
  CHECK(policy.saw(slice) == yield_policy::advice::stay);
  CHECK(policy.saw(slice) == yield_policy::advice::move);
  CHECK(policy.saw({milliseconds(4), milliseconds(4), false}) == yield_policy::advice::stay);
}
