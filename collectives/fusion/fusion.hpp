// Which tensors move together. What is ready goes out at once while the lanes have nothing to do; what
// becomes ready while they are busy piles up here and goes out together, up to the threshold. The order that
// comes out of here is the order in which every member runs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collectives/fusion/ready_tensor.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

struct fusion_options {
  /// Largest bundle; 0: every tensor on its own. A tensor larger than this goes alone.
  std::size_t threshold_bytes = std::size_t{128} << 20;
  std::int32_t local_size = 1;
  bool homogeneous =
      true; ///< as many members on each host: the threshold is rounded up to local_size · 8 · 64
  bool groups_alone = false;              ///< a grouped call's tensors share bundles with nothing else
  std::chrono::nanoseconds cycle_time{0}; ///< longest hold-back for more company while a lane is idle
  /// Bundles that may be on their way (running or queued at the lane) while more company is waited for.
  std::size_t outstanding = 2;
};

/// The threshold that counts.
std::size_t effective_threshold(const fusion_options& options);

class fusion {
public:
  explicit fusion(const fusion_options& options);

  /// Now ready, in this order.
  void push(std::span<const ready_tensor> tensors, std::chrono::nanoseconds current_time);

  /// The bundles that go out now.
  std::vector<bundle> take(std::chrono::nanoseconds current_time);
  /// Everything goes out now.
  std::vector<bundle> flush();

  /// When to take() again if nothing happens before; empty: only after a push or a finish.
  std::optional<std::chrono::nanoseconds> wake_at() const;

  /// This member's lane has finished a bundle; they finish in order.
  void finished(std::uint64_t sequence);

  /// Whether one of these ids waits here. Members must not be told to forget it first.
  bool holds_any(std::span<const std::uint32_t> ids) const;

  std::size_t waiting() const { return queue_.size(); }
  std::size_t outstanding() const { return static_cast<std::size_t>(next_sequence_ - next_finish_); }

private:
  struct item {
    ready_tensor tensor;
    std::chrono::nanoseconds since;
  };
  bool fits(const ready_tensor& head, const ready_tensor& other) const;
  void pick();
  bundle cut();
  void drop_picked();

  fusion_options options_;
  std::size_t threshold_;
  std::vector<item> queue_; ///< oldest first
  // The next bundle, as far as it is known: positions in queue_, the oldest first.
  std::vector<std::size_t> picked_;
  std::size_t picked_bytes_ = 0;
  std::size_t picked_words_ = 0; ///< what it takes of a message
  std::size_t skipped_bytes_ = 0;
  std::size_t scanned_ = 0;
  bool full_ = false; ///< nothing that comes later can join
  std::uint64_t next_sequence_ = 0;
  std::uint64_t next_finish_ = 0;
};

} // namespace farandole
