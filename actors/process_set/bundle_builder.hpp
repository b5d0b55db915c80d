// From a bundle of the leader's schedule to a job for the lane: the kind of work as the leader says it, the
// memory and the sizes as this member submitted them. A schedule that does not fit what was submitted here is
// refused rather than run: lanes trust their numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/process_set/lane.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

class bundle_builder {
public:
  /// Of the member at position `rank` in a set of `members`; `ranks` are their global ranks, none where the
  /// two are the same.
  bundle_builder(std::int32_t rank, std::int32_t members, std::span<const std::int32_t> ranks = {})
      : rank_(static_cast<std::size_t>(rank)), members_(static_cast<std::size_t>(members)), ranks_(ranks) {}

  /// `operations[i]` is what this member submitted for `what.entries[i]`; null where it submitted nothing,
  /// which only a member may that has `joined`, and only where zeros can stand in for it. The job holds the
  /// operations from here on; if it is refused, they are settled when the error's reader drops it.
  expected<std::unique_ptr<lane_job>> build(const bundle& bundle, std::vector<operation_state_ptr> operations,
                                            bool joined) const;

private:
  void add_part(const bundle_entry& entry, std::size_t index, lane_job& job) const;
  void add_segments(operation_state& operation, work& moved) const;

  std::size_t rank_;
  std::size_t members_;
  std::span<const std::int32_t> ranks_;
};

} // namespace farandole
