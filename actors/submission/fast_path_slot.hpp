// The fast-path slot of a cached tensor: the fast path of this generation and the tensor's cell there. The submission
// queue and the operations on the fast path share it, so the segment stays mapped while a framework thread reads it.
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
  /// `results`: memory for outputs whose size is known only once all members have published.
  fast_path_slot(std::shared_ptr<farandole::shm_fast_path> path, fast_path_cell cell,
                 std::shared_ptr<result_memory> results = nullptr)
      : fast_path_(std::move(path)), cell_(cell), results_(std::move(results)) {}

  farandole::shm_fast_path& fast_path() const { return *fast_path_; }
  const fast_path_cell& cell() const { return cell_; }
  result_memory& results() const { return *results_; }

  /// Total number of steps of the collectives of all earlier rounds, equal on all members. Not synchronised: only one
  /// operation at a time uses the slot.
  std::uint64_t steps() const { return steps_; }
  void add_steps(std::uint64_t count) { steps_ += count; }

  /// Records how long this member moved bytes in the last round.
  void record_move_time(std::chrono::nanoseconds time) {
    took_.store(time.count(), std::memory_order_relaxed);
  }
  /// How long to poll for the other members before sleeping. While bytes move, a member that sleeps delays all
  /// others, and a core that has just idled copies slowly.
  std::chrono::nanoseconds patience() const {
    return std::min<std::chrono::nanoseconds>(
        4 * std::chrono::nanoseconds(took_.load(std::memory_order_relaxed)), most_patience);
  }

  /// Records how many bytes this member received in the last round; predicted_bytes() predicts the next one, and returns
  /// `first` before any round. The prediction is a little above the largest round so far, and is lowered when a round
  /// brings less than half of it. A result buffer that is too small makes a round slower.
  void record_result_bytes(std::size_t bytes) {
    const auto expected = expected_.load(std::memory_order_relaxed);
    if (bytes > expected || bytes < expected / 2)
      expected_.store(expected == 0 ? bytes : bytes + bytes / 8, std::memory_order_relaxed);
  }
  std::size_t predicted_bytes(std::size_t first) const {
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
  std::atomic<std::size_t> expected_{0}; ///< bytes; 0: no bytes have come yet
};

} // namespace farandole
