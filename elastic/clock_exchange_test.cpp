#include "elastic/clock_exchange.hpp"

#include <catch2/catch.hpp>

#include <random>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

using time_value = clock_exchange::time;

/// Two processes, by a common true time that neither knows.
struct two_clocks {
  time_value offset{0}; ///< of the other clock at true time 0
  double drift = 0;     ///< of the other clock
  time_value now{0};
  std::mt19937_64 random{1};

  time_value mine() const { return now; }
  time_value other() const { return now + offset_now(); }
  time_value offset_now() const {
    return offset + time_value(static_cast<std::int64_t>(drift * static_cast<double>(now.count())));
  }
  void pass(time_value least, time_value most) {
    now += time_value(std::uniform_int_distribution<std::int64_t>(least.count(), most.count())(random));
  }

  void play_round(clock_exchange& exchange, int lost_after = clock_exchange::exchanges_per_round + 1) {
    auto question = std::optional(exchange.begin_round(mine()));
    for (int i = 1; question && i < lost_after; ++i) {
      pass(20us, 2ms);
      const auto received = other();
      pass(1us, 500us);
      const auto answer = clock_exchange::answer(*question, received, other());
      pass(20us, 2ms);
      question = exchange.answered(answer, mine());
    }
  }
};

} // namespace

TEST_CASE("the true offset of a clock is within the bound, whatever the delays and the drift") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    two_clocks clocks{time_value(static_cast<std::int64_t>(seed * 7'919'000'000'000) - 700'000'000'000'000),
                      (static_cast<double>(seed) - 100) * 1e-6, 10s, std::mt19937_64(seed)};
    clock_exchange exchange(3);
    CHECK_FALSE(exchange.result());
    clocks.play_round(exchange);
    REQUIRE(exchange.result());
    const auto result = *exchange.result();
    CHECK(result.peer == 3);
    // While a message travels, a drift of 100 ppm changes the offset by less than a microsecond.
    CHECK(std::chrono::abs(result.offset - clocks.offset_now()) <= result.bound + 10us);
    CHECK(result.bound < 2ms);
  }
}

TEST_CASE("two rounds yield the drift, by which the offset is known between and after them") {
  two_clocks clocks{5000s, 50e-6, 1s};
  clock_exchange exchange(0);
  clocks.play_round(exchange);
  CHECK(exchange.result()->drift_parts_per_billion == 0);
  clocks.now += 60s;
  clocks.play_round(exchange);
  const auto result = *exchange.result();
  CHECK(std::abs(result.drift_parts_per_billion - 50'000) < 20'000);
  clocks.now += 60s;
  const auto expected = result.offset + time_value((clocks.mine() - result.measured).count() *
                                                   result.drift_parts_per_billion / 1'000'000'000);
  CHECK(std::chrono::abs(expected - clocks.offset_now()) < 2ms);
}

TEST_CASE("a round without all of its answers gives way to the next one") {
  two_clocks clocks{-7s, 0, 1s};
  clock_exchange exchange(0);
  clocks.play_round(exchange, 5);
  CHECK_FALSE(exchange.result());
  clocks.play_round(exchange);
  CHECK(exchange.result());
}

TEST_CASE("an answer to another question, or one that says it was sent early, changes nothing") {
  clock_exchange exchange(0);
  const auto question = exchange.begin_round(5s);
  CHECK_FALSE(exchange.answered({4s, true, 6s, 6s}, 6s));
  CHECK_FALSE(exchange.answered({5s, false, 0s, 0s}, 6s));
  CHECK_FALSE(exchange.answered(clock_exchange::answer(question, 9s, 9s), 4s));
  // The other member claims to have worked on it for longer than the whole exchange took.
  for (int i = 0; i < clock_exchange::exchanges_per_round; ++i)
    exchange.answered({i == 0 ? question.asked : 6s, true, 0s, 100s}, 6s);
  CHECK_FALSE(exchange.result());
}
