// The fusion policy: decides which ready tensors are moved together in one bundle. While the lane has little
// to do, ready tensors start at once. Tensors that become ready while the lane is busy are queued and start
// together, up to the threshold. Every member runs the bundles in the order in which they are produced here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collectives/fusion/ready_tensor.hpp"
#include "messages/record/event_kinds.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

struct fusion_options {
  /// Maximum size of a bundle; 0: no fusion, every tensor moves alone. A tensor of at least this size moves alone.
  std::size_t threshold_bytes = std::size_t{128} << 20;
  std::int32_t local_size = 1; ///< members on each host
  /// All hosts have the same number of members: the threshold is rounded up to a multiple of
  /// local_size · 8 · 64.
  bool homogeneous = true;
  bool groups_alone = false; ///< tensors of a grouped call share bundles only with each other
  /// Maximum time to wait for more tensors before a bundle starts that is not full.
  std::chrono::nanoseconds cycle_time{0};
  /// Maximum number of bundles in progress (running or queued at the lane). While it is reached, only full
  /// bundles start; all other tensors wait and are fused.
  std::size_t outstanding = 2;
};

/// The threshold after rounding.
std::size_t effective_threshold(const fusion_options& options);

class fusion {
public:
  explicit fusion(const fusion_options& options);

  /// Queues tensors that have become ready, in this order.
  void push(std::span<const ready_tensor> tensors, std::chrono::nanoseconds current_time);

  /// Removes and returns the bundles that start now.
  std::vector<bundle> take(std::chrono::nanoseconds current_time);
  /// Removes and returns all queued tensors as bundles, without waiting for more.
  std::vector<bundle> flush();

  /// Why each bundle that the last take() or flush() returned was started, in their order. For the event record.
  std::span<const cut_trigger> triggers() const { return triggers_; }

  /// When to call take() again if neither push() nor finished() is called before. Empty: not until then.
  std::optional<std::chrono::nanoseconds> wake_at() const;

  /// The lane has finished the bundle of this sequence number. Bundles finish in order.
  void finished(std::uint64_t sequence);

  /// Whether a queued tensor has one of these ids. If so, its bundle must be sent before members are told to
  /// forget the id.
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
  bundle cut(cut_trigger trigger);
  void drop_picked();

  fusion_options options_;
  std::size_t threshold_;
  std::vector<item> queue_; ///< oldest first
  // The next bundle, as far as it has been selected: positions in queue_, oldest first.
  std::vector<std::size_t> picked_;
  std::size_t picked_bytes_ = 0;
  std::size_t picked_words_ = 0;  ///< space that the bundle takes in a message
  std::size_t skipped_bytes_ = 0; ///< size of the tensors that were examined and do not match
  std::size_t scanned_ = 0;       ///< number of positions of queue_ that were examined
  bool full_ = false;             ///< no later tensor can be added
  std::uint64_t next_sequence_ = 0;
  std::uint64_t next_finish_ = 0;
  std::vector<cut_trigger> triggers_;
};

} // namespace farandole
