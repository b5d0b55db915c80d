#include "messages/record/event_follower.hpp"

#include <catch2/catch.hpp>

#include <optional>
#include <thread>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

/// Events with chosen times, written as if by two threads.
class two_threads {
public:
  two_threads() {
    auto region = event_region::anonymous(16);
    REQUIRE(region);
    recorder_.emplace(*region);
  }

  event_recorder& recorder() { return *recorder_; }
  void write(std::size_t thread, std::uint64_t ticks) {
    recorder_->region()->ring(thread).write({ticks, 0, 0, event_kind::joined, 0, thread, 0});
  }

private:
  std::optional<event_recorder> recorder_;
};

std::vector<std::uint64_t> times_of(const event_follower::batch& batch) {
  std::vector<std::uint64_t> times;
  for (const auto& entry : batch.events)
    times.push_back(entry.ticks);
  return times;
}

} // namespace

TEST_CASE("a follower begins with the events that are written after it was made") {
  two_threads threads;
  threads.write(0, 1);
  event_follower follower(threads.recorder());
  CHECK_FALSE(follower.has_news());
  threads.write(0, 2);
  CHECK(follower.has_news());
  CHECK(times_of(follower.take(100)) == std::vector<std::uint64_t>{2});
  CHECK_FALSE(follower.has_news());
  CHECK(follower.take(100).events.empty());
}

TEST_CASE("a follower merges the events of all threads by time, and keeps those that are too late") {
  two_threads threads;
  event_follower follower(threads.recorder());
  for (const std::uint64_t ticks : {1, 4, 9})
    threads.write(0, ticks);
  for (const std::uint64_t ticks : {2, 4, 6})
    threads.write(1, ticks);
  CHECK(times_of(follower.take(5)) == std::vector<std::uint64_t>{1, 2, 4, 4});
  CHECK(follower.has_news());
  threads.write(1, 8);
  CHECK(times_of(follower.take(9)) == std::vector<std::uint64_t>{6, 8, 9});
  CHECK_FALSE(follower.has_news());
}

TEST_CASE("a follower that comes too late counts the events that it missed") {
  two_threads threads;
  event_follower follower(threads.recorder());
  for (std::uint64_t ticks = 1; ticks <= 20; ++ticks)
    threads.write(0, ticks);
  const auto batch = follower.take(100);
  CHECK(batch.dropped == 5);
  CHECK(batch.events.size() == 15);
  CHECK(batch.events.front().ticks == 6);
  CHECK(follower.take(100).dropped == 0);
}

// Under ThreadSanitizer, this also shows that reading a ring while its owner overwrites it is no data race.
TEST_CASE(
    "a follower beside a thread that overruns its ring sees whole events in order, and counts the others") {
  constexpr std::uint64_t last = 100'000;
  two_threads threads;
  auto& recorder = threads.recorder();
  event_follower follower(recorder);
  std::thread writer([&recorder] {
    for (std::uint64_t number = 1; number <= last; ++number)
      recorder.record(event_kind::joined, 0, 0, static_cast<std::uint8_t>(number), number, ~number);
  });
  std::uint64_t newest = 0, seen = 0, dropped = 0;
  bool sound = true;
  while (seen + dropped < last) {
    const auto batch = follower.take(~std::uint64_t{0});
    for (const auto& entry : batch.events) {
      sound = sound && entry.first > newest && entry.second == ~entry.first &&
              entry.detail == static_cast<std::uint8_t>(entry.first);
      newest = entry.first;
    }
    seen += batch.events.size();
    dropped += batch.dropped;
  }
  writer.join();
  CHECK(sound);
  CHECK(newest == last);
  CHECK(seen + dropped == last);
  CHECK_FALSE(follower.has_news());
}

// A lost wake-up would leave the test hanging.
TEST_CASE("an event wakes a follower that sleeps, or is about to") {
  two_threads threads;
  auto& recorder = threads.recorder();
  event_follower follower(recorder);
  for (int round = 0; round < 100; ++round) {
    const bool is_reliable = recorder.announce_sleep();
    std::thread writer([&recorder] { recorder.record(event_kind::joined, 0, 0); });
    if (!follower.has_news())
      recorder.sleep(is_reliable ? std::chrono::nanoseconds(1h) : 1ms);
    writer.join();
    CHECK(follower.take(~std::uint64_t{0}).events.size() == 1);
  }
}

TEST_CASE("wake() ends a sleep without an event") {
  two_threads threads;
  auto& recorder = threads.recorder();
  recorder.announce_sleep();
  std::thread other([&recorder] { recorder.wake(); });
  recorder.sleep(1h);
  other.join();
  CHECK_FALSE(event_follower(recorder).has_news());
}
