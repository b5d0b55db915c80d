#include "collectives/transport/wait/yield_policy.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

unsigned skipped(yield_policy& ledger) {
  unsigned count = 0;
  while (!ledger.pays())
    ++count;
  return count;
}

constexpr yield_policy::report quick{microseconds(3), microseconds(1), true};
constexpr yield_policy::report slice{milliseconds(4), milliseconds(4), true};
constexpr yield_policy::report switched{microseconds(10), microseconds(9), true};

} // namespace

TEST_CASE("a time slice lost is paid back by waits that sleep, and by more when that happens again") {
  yield_policy ledger(true);
  CHECK(skipped(ledger) == 0);
  ledger.saw(quick);
  CHECK(skipped(ledger) == 0);
  ledger.saw(slice);
  CHECK(skipped(ledger) == 80);
  ledger.saw(slice);
  CHECK(skipped(ledger) == 160);
  ledger.saw(quick);
  ledger.saw(slice);
  CHECK(skipped(ledger) == 80);
  for (int i = 0; i < 40; ++i)
    ledger.saw({std::chrono::seconds(1), std::chrono::seconds(1), false});
  CHECK(skipped(ledger) == 4096);
}

TEST_CASE("a little time lost makes few waits sleep") {
  yield_policy ledger(true);
  ledger.saw({microseconds(300), microseconds(300), true});
  CHECK(skipped(ledger) == 6);
}

TEST_CASE("members that meet on one core, where each could have its own, move after a while") {
  using advice = yield_policy::advice;
  yield_policy ledger(true, 4);
  const auto meetings_until_move = [&] {
    unsigned count = 1;
    while (ledger.saw(switched) == advice::stay)
      ++count;
    return count;
  };
  CHECK(meetings_until_move() == 4);
  CHECK(meetings_until_move() == 8); // it did not help
  CHECK(meetings_until_move() == 16);
  CHECK(ledger.saw(quick) == advice::stay);
  CHECK(meetings_until_move() == 4);
  for (int i = 0; i < 100; ++i) {
    CHECK(ledger.saw(switched) == advice::stay);
    CHECK(ledger.saw(quick) == advice::stay);
  }
  CHECK(skipped(ledger) == 0);
}

TEST_CASE("members with less than a core each stay where they are, and go on yielding") {
  yield_policy ledger(false, 4);
  for (int i = 0; i < 100; ++i) {
    CHECK(ledger.saw(switched) == yield_policy::advice::stay);
    CHECK(ledger.saw(slice) == yield_policy::advice::stay);
  }
  CHECK(skipped(ledger) == 0);
}

TEST_CASE("members that lose time slices to each other move sooner") {
  yield_policy ledger(true, 2 * yield_policy::least_meetings);
  CHECK(ledger.saw(slice) == yield_policy::advice::stay);
  CHECK(ledger.saw(slice) == yield_policy::advice::move);
  CHECK(ledger.saw({milliseconds(4), milliseconds(4), false}) == yield_policy::advice::stay);
}
