#include "collectives/transport/wait/futex_wait.hpp"

#include <pthread.h>
#include <signal.h>

#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "collectives/transport/path.hpp"
#include "collectives/transport/paths_testing.hpp"

using namespace farandole;
using farandole::testing::far;

namespace {

/// All ways to wait: yielding, spinning, and a kernel that cannot watch two words.
const futex_wait policies[] = {
    {futex_wait::polling::yielding, std::chrono::microseconds(20), yield_policy(true)},
    {futex_wait::polling::spinning, std::chrono::microseconds(50), yield_policy(true)},
    {futex_wait::polling::yielding, std::chrono::microseconds(0), yield_policy(false), false}};

} // namespace

TEST_CASE("a waiting thread wakes when the counter reaches its number, not for smaller numbers") {
  for (const auto& policy : policies) {
    shared_counter counter;
    abort_token abort;
    auto end = std::async(std::launch::async, [&] {
      const auto outcome = policy.until_reached(counter, 20'000, abort.word(), far());
      return std::pair(outcome, counter.value.load());
    });
    for (std::uint32_t i = 1; i <= 20'000; ++i)
      counter.publish(i);
    const auto [outcome, observed] = end.get();
    CHECK(outcome == wait_end::reached);
    CHECK(observed == 20'000);
    CHECK(counter.waiters.load() == 0);
  }
}

TEST_CASE("two members that wait for each other in turn never miss a wake-up") {
  for (const auto& policy : policies) {
    shared_counter own, theirs;
    abort_token abort;
    std::thread other([&] {
      for (std::uint32_t i = 1; i <= 2000; ++i) {
        policy.until_reached(own, i, abort.word(), far());
        theirs.publish(i);
      }
    });
    unsigned reached = 0;
    for (std::uint32_t i = 1; i <= 2000; ++i) {
      own.publish(i);
      reached += policy.until_reached(theirs, i, abort.word(), far()) == wait_end::reached;
    }
    other.join();
    CHECK(reached == 2000);
  }
}

TEST_CASE("has_reached is correct when counters wrap around") {
  CHECK(has_reached(5, 5));
  CHECK(has_reached(6, 5));
  CHECK_FALSE(has_reached(4, 5));
  CHECK(has_reached(3, 0xffff'fff0u));
  CHECK_FALSE(has_reached(0xffff'fff0u, 3));
  CHECK(has_reached(0, 0u + 1 - 4)); // before the first round of a shared segment
}

TEST_CASE("a raised abort token ends a wait without a deadline") {
  for (const auto& policy : policies) {
    shared_counter counter;
    abort_token abort;
    auto end = std::async(std::launch::async, [&] {
      return policy.until_reached(counter, 1, abort.word(), std::chrono::steady_clock::time_point::max());
    });
    // A thread that is among the waiters sleeps or is about to sleep; it must see the token in both cases.
    while (counter.waiters.load() == 0 && !policy.spins())
      std::this_thread::yield();
    abort.raise();
    abort.raise();
    CHECK(end.get() == wait_end::noticed);
    CHECK(abort.raised());
  }
}

TEST_CASE("a wait ends at its deadline") {
  for (const auto& policy : policies) {
    shared_counter counter;
    abort_token abort;
    const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
    CHECK(policy.until_reached(counter, 1, abort.word(), soon) == wait_end::expired);
    CHECK(std::chrono::steady_clock::now() >= soon);
    CHECK(policy.until_reached(counter, 1, abort.word(), {}) == wait_end::expired);
  }
}

TEST_CASE("an interruptible wait returns for a signal before its condition holds") {
  struct sigaction quiet {};
  struct sigaction before {};
  quiet.sa_handler = [](int) {};
  REQUIRE(sigaction(SIGUSR1, &quiet, &before) == 0);
  for (const auto& policy : policies) {
    shared_counter counter;
    abort_token news;
    std::promise<pthread_t> thread;
    auto end = std::async(std::launch::async, [&] {
      thread.set_value(pthread_self());
      return policy.until(watched{&counter.value, counter.waiters, news.word(), 0, far(), true},
                          [&] { return counter.value.load() != 0; });
    });
    const pthread_t sleeper = thread.get_future().get();
    // The signal usually interrupts the sleep. If it arrives earlier or later, the limit of 100 ms ends the
    // wait.
    const auto over = [&] { return end.wait_for(std::chrono::seconds(0)) == std::future_status::ready; };
    while (counter.waiters.load() == 0 && !policy.spins() && !over())
      std::this_thread::yield();
    pthread_kill(sleeper, SIGUSR1);
    CHECK(end.get() == wait_end::interrupted);
  }
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_CASE("a wait for a reached number succeeds despite an expired deadline and a raised abort token") {
  shared_counter counter;
  counter.publish(3);
  abort_token abort;
  abort.raise();
  for (const auto& policy : policies)
    CHECK(policy.until_reached(counter, 3, abort.word(), {}) == wait_end::reached);
}
