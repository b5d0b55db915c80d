// Builds a task for the lane from a bundle of the leader's schedule. The schedule gives the kind of work; the
// operations that this member has submitted give the memory and the sizes. A schedule that does not fit these
// operations is refused, because lanes do not check their numbers.
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
  /// For the member at position `rank` in a set of `members`. `ranks`: their global ranks; empty where these are
  /// equal to the positions.
  bundle_builder(std::int32_t rank, std::int32_t members, std::span<const std::int32_t> ranks = {})
      : rank_(static_cast<std::size_t>(rank)), members_(static_cast<std::size_t>(members)), ranks_(ranks) {}

  /// `operations[i]` is the operation that this member submitted for `bundle.entries[i]`. It may be null only if
  /// this member has `joined` and zeros can stand in. The task takes over the operations; if the bundle is refused,
  /// they are settled with an error.
  expected<std::unique_ptr<lane_task>> build(const bundle& bundle,
                                             std::vector<operation_state_ptr> operations, bool joined) const;

private:
  void add_part(const bundle_entry& entry, std::size_t index, lane_task& task) const;
  void add_segments(operation_state& operation, work& bundle_work) const;

  std::size_t rank_;
  std::size_t members_;
  std::span<const std::int32_t> ranks_;
};

} // namespace farandole
