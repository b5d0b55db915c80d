// A known tensor's place on the fast path: the fast path of this generation and its cell there. Shared by the submission queue
// and by the operations that sit there, so the segment stays mapped while a framework thread reads it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "collectives/transport/shm/result_memory.hpp"
#include "collectives/transport/shm/shm_fast_path.hpp"

namespace farandole {

class fast_path_slot {
public:
  /// `results`: for outputs whose size is known only once all have come.
  fast_path_slot(std::shared_ptr<farandole::shm_fast_path> board, fast_path_cell cell,
                 std::shared_ptr<result_memory> results = nullptr)
      : fast_path_(std::move(board)), cell_(cell), results_(std::move(results)) {}

  farandole::shm_fast_path& fast_path() const { return *fast_path_; }
  const fast_path_cell& cell() const { return cell_; }
  result_memory& results() const { return *results_; }

  /// How many steps the collectives of all rounds before have taken, alike on all members. One operation at a
  /// time is in its seat.
  std::uint64_t steps() const { return steps_; }
  void add_steps(std::uint64_t count) { steps_ += count; }

  /// How long this member moved bytes in the last round.
  void took(std::chrono::nanoseconds time) { took_.store(time.count(), std::memory_order_relaxed); }
  /// How long to look for the others before sleeping: while bytes move, who sleeps is late for all, and what
  /// is copied by a core that has just idled is copied slowly.
  std::chrono::nanoseconds patience() const {
    return std::min<std::chrono::nanoseconds>(
        4 * std::chrono::nanoseconds(took_.load(std::memory_order_relaxed)), most_patience);
  }

  /// How much came to this member in the last round; how much to expect in the next, `first` before any has
  /// come. A little more than ever came, unless that was more than twice as much: a place that is too small
  /// costs a slower round.
  void came(std::size_t bytes) {
    const auto expected = expected_.load(std::memory_order_relaxed);
    if (bytes > expected || bytes < expected / 2)
      expected_.store(expected == 0 ? bytes : bytes + bytes / 8, std::memory_order_relaxed);
  }
  std::size_t expects(std::size_t first) const {
    const auto expected = expected_.load(std::memory_order_relaxed);
    return expected > 0 ? expected : first;
  }

private:
  static constexpr std::chrono::milliseconds most_patience{10};

  std::shared_ptr<farandole::shm_fast_path> fast_path_;
  fast_path_cell cell_;
  std::shared_ptr<result_memory> results_;
  std::uint64_t steps_ = 0;
  std::atomic<std::int64_t> took_{0};    ///< nanoseconds
  std::atomic<std::size_t> expected_{0}; ///< bytes; 0: nothing has come yet
};

} // namespace farandole
