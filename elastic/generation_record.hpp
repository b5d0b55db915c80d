// The running generation, or the last one if none runs: its members, the membership changes since it began,
// and whether its members share one training state. `formation` derives the next generation from it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "messages/wire/job_image.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

class generation_record {
public:
  static generation_record restored(const job_image& image);
  /// Writes the generation's part of an image.
  void store(job_image& image) const;

  /// 0: no generation has started yet.
  std::uint64_t number() const { return number_; }
  bool running() const { return running_; }
  /// The slots of its members, by rank.
  const std::vector<std::int32_t>& slots() const { return slots_by_rank_; }
  bool has(std::int32_t slot) const;
  /// Empty if the generation has no such rank.
  std::optional<std::int32_t> slot_of_rank(std::int32_t rank) const;

  /// Whether a member was lost, so that the others may stand at different training steps.
  bool lost_somebody() const { return lost_somebody_; }
  /// Whether it ended only because members left by plan.
  bool only_removals() const { return changes_ > 0 && removals_only_ && !lost_somebody_; }
  /// Whether a member had a training state when it began.
  bool had_state() const { return state_generation_ != 0; }
  /// Whether the member in `slot` has the newest training state of the job. `state` is the generation in
  /// which the member last received the others' state or trained from its own; 0: it has none.
  /// - A member of the last generation has the newest state if it received it in that generation, or had it
  ///   when that generation began. All members commit together, so as long as one member had not received the
  ///   state, no member committed a newer one.
  /// - A member that was not in the last generation has missed the others' commits.
  bool is_newest(std::int32_t slot, std::uint64_t state) const;

  /// A member is to join or to leave. The number of changes tells one change from the next.
  void change(bool removal);
  changed pending_changes() const { return {number_, changes_, removals_only_}; }

  /// Starts the next generation. `state`: generation of a member's newest training state; 0: none has one.
  void start(std::vector<std::int32_t> slots_by_rank, std::uint64_t state);
  void end_by_loss();
  void end_in_order() { running_ = false; }

private:
  std::uint64_t number_ = 0;
  bool running_ = false;
  std::vector<std::int32_t> slots_by_rank_;
  std::uint64_t changes_ = 0;
  bool removals_only_ = true; ///< whether all changes are removals
  bool lost_somebody_ = true;
  std::uint64_t state_generation_ = 0; ///< of the newest training state when it began; 0: none
};

} // namespace farandole
