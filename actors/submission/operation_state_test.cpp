#include "actors/submission/operation_state.hpp"

#include <catch2/catch.hpp>

#include <thread>

#include "tests/patience.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

TEST_CASE("wait_for_change returns at once if the operation is settled", "[operation_state]") {
  auto operation = operation_state_ptr::make();
  REQUIRE(operation->claim_and_settle(phase::queued, {}));
  const auto deadline = clock_type::now() + patience;
  operation->wait_for_change(phase::settled, deadline);
  CHECK(clock_type::now() < deadline);
}

TEST_CASE("wait_for_change returns at once if the phase has passed", "[operation_state]") {
  auto operation = operation_state_ptr::make();
  REQUIRE(operation->advance(phase::queued, phase::claimed));
  const auto deadline = clock_type::now() + patience;
  operation->wait_for_change(phase::queued, deadline);
  CHECK(clock_type::now() < deadline);
}

TEST_CASE("a waiting thread wakes when another thread settles the operation", "[operation_state]") {
  auto operation = operation_state_ptr::make();
  const auto deadline = clock_type::now() + patience;
  std::thread other{[operation] { operation->claim_and_settle(phase::queued, {}); }};
  while (!operation->settled() && clock_type::now() < deadline)
    operation->wait_for_change(operation->now(), deadline);
  other.join();
  CHECK(operation->settled());
  CHECK(clock_type::now() < deadline);
}

TEST_CASE("a claimed operation cannot be claimed again", "[operation_state]") {
  auto operation = operation_state_ptr::make();
  REQUIRE(operation->advance(phase::queued, phase::claimed));
  CHECK_FALSE(operation->claim_and_settle(phase::queued, {error_kind::aborted, "too late"}));
  operation->settle({});
  CHECK_FALSE(operation->problem);
}

TEST_CASE("a callback is called once, whether it was left before or after the operation settled",
          "[operation_state]") {
  int early = 0, late = 0;
  auto operation = operation_state_ptr::make();
  operation->on_settled([&] { ++early; });
  CHECK(early == 0);
  operation->claim_and_settle(phase::queued, {});
  CHECK(early == 1);
  auto ended = operation_state_ptr::make();
  ended->claim_and_settle(phase::queued, {});
  ended->on_settled([&] { ++late; });
  CHECK(late == 1);
}

TEST_CASE("on_settled of a settled operation returns after the callback was called", "[operation_state]") {
  for (int round = 0; round < 500; ++round) {
    auto operation = operation_state_ptr::make();
    std::thread other{[operation] { operation->claim_and_settle(phase::queued, {}); }};
    while (!operation->settled())
      std::this_thread::yield();
    int calls = 0;
    operation->on_settled([&] { ++calls; });
    REQUIRE(calls == 1);
    other.join();
    REQUIRE(calls == 1);
  }
}
