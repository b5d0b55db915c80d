// One exploration: the search through all executions, and the memory model of each execution. Only the files
// of the checker include this header.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <memory>

#include "tests/models/checker.hpp"

namespace farandole::models {

inline constexpr std::size_t most_threads = 3, most_locations = 16, stack_bytes = std::size_t{128} << 10;
inline constexpr std::uint32_t most_steps = 500;
inline constexpr std::uint64_t most_executions = 5'000'000;

inline bool acquires(std::memory_order order) {
  return order != std::memory_order_relaxed && order != std::memory_order_release;
}
inline bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

/// A place in a location's modification order; there is always another place between two. The initial value
/// has place 0.
using stamp = double;

/// The knowledge of a thread, or of a message. `stamps` are the oldest places that may still be read; `clock`
/// is happens-before, which is less: sequentially consistent fences add to `stamps` only.
struct knowledge {
  std::array<stamp, most_locations> stamps{};
  std::array<std::uint32_t, most_threads> clock{};

  void join_seen(const std::array<stamp, most_locations>& other) {
    for (std::size_t i = 0; i < most_locations; ++i)
      stamps[i] = std::max(stamps[i], other[i]);
  }
  void join(const knowledge& other) {
    join_seen(other.stamps);
    for (std::size_t i = 0; i < most_threads; ++i)
      clock[i] = std::max(clock[i], other.clock[i]);
  }
};

struct message {
  std::uint64_t value = 0;
  stamp at = 0;
  knowledge told; ///< for a thread that reads the message and acquires
  /// Whether a read-modify-write of this message follows: no message may come between the two.
  bool followed = false;
};

struct location {
  std::vector<message> history; ///< in modification order
  stamp newest_sc = 0;          ///< newest place that a sequentially consistent access wrote or read
  knowledge by_futex;           ///< knowledge of the threads that called FUTEX_WAKE
};

struct plain_cell {
  std::array<std::uint32_t, most_threads> reads{};
  std::size_t writer = 0;
  std::uint32_t written = 0; ///< the writer's clock; 0: never
};

/// The next access of a thread.
struct step {
  std::size_t location = most_locations; ///< most_locations: none
  bool writes = false;
  bool consistent = false; ///< sequentially consistent
};

/// Whether the order of the two steps makes a difference.
inline bool dependent(const step& a, const step& b) {
  const bool a_fence = a.location == most_locations, b_fence = b.location == most_locations;
  if (a_fence || b_fence)
    return a.consistent && b.consistent;
  return a.location == b.location && (a.writes || b.writes || (a.consistent && b.consistent));
}

struct thread {
  enum class state : std::uint8_t { ready, asleep, ended } current = state::ready;
  step next;
  std::size_t bed = most_locations; ///< the location at which it sleeps
  knowledge knows;                  ///< limits its accesses
  knowledge loaded;                 ///< the knowledge that an acquire fence would add
  knowledge fenced;                 ///< the knowledge at its last release fence
  std::function<void()> body;
  ucontext_t context{};
};

class engine {
public:
  engine(const program& which, const std::optional<weakening>& changed) : which_(which), changed_(changed) {
    for (auto& stack : stacks_)
      stack = std::make_unique<char[]>(stack_bytes);
  }

  exploration run();

  std::size_t add_location(std::uint64_t initial) {
    assert(locations_.size() < most_locations);
    locations_.emplace_back().history.push_back({initial, 0, {}, false});
    return locations_.size() - 1;
  }
  std::size_t add_cell() {
    cells_.emplace_back();
    return cells_.size() - 1;
  }

  std::uint64_t read(std::size_t at, std::memory_order order, const std::source_location& from);
  void write(std::size_t at, std::uint64_t value, std::memory_order order, const std::source_location& from);
  using change = std::function<std::uint64_t(std::uint64_t)>;
  std::uint64_t modify(std::size_t at, const change& next, std::memory_order order,
                       const std::source_location& from);
  bool exchange_if(std::size_t at, std::uint64_t& expected, std::uint64_t desired, std::memory_order success,
                   std::memory_order failure, const std::source_location& from);
  void fence(std::memory_order order, const std::source_location& from);
  void sleep_while(std::size_t at, std::uint64_t mask, std::uint64_t value);
  void wake(std::size_t at);
  void touch(std::size_t cell, bool writes);
  [[noreturn]] void fail(std::string reason);
  bool in_thread() const { return current_ < threads_.size(); }

private:
  thread& self() { return threads_[current_]; }
  std::memory_order order_of(access kind, std::memory_order declared, const std::source_location& from);
  void announce(const step& next);
  void schedule();
  void leave() { swapcontext(&self().context, &outside_); }
  static void enter();
  void play();
  bool next_path();
  std::size_t choose(std::size_t options);
  stamp minimum(std::size_t at, std::memory_order order);
  std::vector<std::size_t> readable(std::size_t at, std::memory_order order);
  void learn(std::size_t at, const message& from, std::memory_order order);
  void insert(std::size_t at, std::size_t behind, std::uint64_t value, std::memory_order order,
              bool modifies);

  const program& which_;
  const std::optional<weakening>& changed_;
  exploration found_;

  // The search: the number of options of each choice, and the option taken.
  struct decision {
    std::size_t options, taken;
  };
  std::vector<decision> path_;
  std::size_t depth_ = 0;

  // The execution.
  std::vector<location> locations_;
  std::vector<plain_cell> cells_;
  std::array<stamp, most_locations> fences_{}; ///< the knowledge of the sequentially consistent fences
  std::vector<thread> threads_;
  std::size_t current_ = most_threads;
  std::uint32_t steps_ = 0;
  std::uint32_t pruned_ = 0; ///< threads whose next step another execution takes first
  bool starting_ = false;
  bool ended_ = false;
  std::array<std::unique_ptr<char[]>, most_threads> stacks_;
  ucontext_t outside_{};
};

/// The engine of the running exploration.
extern engine* running;

} // namespace farandole::models
