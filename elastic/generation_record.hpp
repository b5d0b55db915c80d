// The generation that runs, or else the last one: who is in it, how far it has changed since it began, and
// whether its members share one training state. What the next generation may be follows from it.
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

  /// 0: there was none yet.
  std::uint64_t number() const { return number_; }
  bool running() const { return running_; }
  /// Of its members, by rank.
  const std::vector<std::int32_t>& slots() const { return slots_by_rank_; }
  bool has(std::int32_t slot) const;
  /// Nothing: the generation has no such rank.
  std::optional<std::int32_t> slot_of_rank(std::int32_t rank) const;

  /// Whether its members do not all stand at the same step, for one was lost.
  bool lost_somebody() const { return lost_somebody_; }
  /// Whether it ended for nothing but members that left by plan.
  bool only_removals() const { return changes_ > 0 && removals_only_ && !lost_somebody_; }
  /// Whether a member had a training state when it began.
  bool had_state() const { return state_generation_ != 0; }
  /// Whether the training state that the member in `slot` was last brought to in generation `state` is the
  /// newest that there is; 0: it has none. A member of the last generation has it if it was brought to it
  /// there, or had it when that generation began: where one member was not brought to the state, none has
  /// committed anything, for what is committed is committed by all. Who was not in the last generation has
  /// missed what the others committed.
  bool is_newest(std::int32_t slot, std::uint64_t state) const;

  /// A member is to come or to leave. How many changes there were tells one from the next.
  void change(bool removal);
  changed pending_changes() const { return {number_, changes_, removals_only_}; }

  /// The next one. `state`: the newest training state that a member has; 0: none has any.
  void start(std::vector<std::int32_t> slots_by_rank, std::uint64_t state);
  void end_by_loss();
  void end_in_order() { running_ = false; }

private:
  std::uint64_t number_ = 0;
  bool running_ = false;
  std::vector<std::int32_t> slots_by_rank_;
  std::uint64_t changes_ = 0;
  bool removals_only_ = true; ///< the changes were
  bool lost_somebody_ = true;
  std::uint64_t state_generation_ = 0; ///< of the newest training state when it began; 0: none had any
};

} // namespace farandole
