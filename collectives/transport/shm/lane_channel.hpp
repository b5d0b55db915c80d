// The shm_channel of a lane: the slots and counters of the shared segment. Its waits block until an abort, or until
// they have lasted for the time that was left until the deadline when the bundle began.
//
// So the timeout limits each wait, not the bundle. A wait for a member that itself waits for a slow one ends in time,
// too: no member is more steps ahead of another than there are slots, so each wait ends after a few steps of the
// slowest member, which move a chunk each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "collectives/transport/path.hpp"
#include "collectives/transport/shm/lane_placement.hpp"
#include "collectives/transport/shm/shm_channel.hpp"
#include "collectives/transport/wait/futex_wait.hpp"

namespace farandole {

class lane_channel : public shm_channel {
public:
  /// A test hook. The lane calls it before each phase of each step, and before each wait for another member's
  /// counter (then `step` is the value that the counter must reach). Tests use it to stop members.
  using probe = std::function<void(local_phase, std::uint64_t step)>;

  /// The segment must be fresh, and nothing else may write this member's counters and slots.
  lane_channel(std::shared_ptr<shm_segment> shared, std::uint32_t rank, futex_wait policy, probe watch);

  /// Starts a bundle: later waits use its deadline and name it in errors. Both arguments must outlive its
  /// run.
  void begin(const work& bundle, const deadline_and_abort& deadline);
  /// From this step on, moves this lane away from crowded cores. Called for bundles that are large enough to
  /// be worth the move.
  void spread(std::uint64_t step) { placement_.begin(step); }
  /// Time that await() has spent waiting since begin().
  std::chrono::nanoseconds waited() const { return waited_; }
  /// Why a wait ended with arrival::failed.
  const error& problem() const { return problem_; }

  std::uint32_t slots() const override { return segment_->layout().slots; }
  std::size_t slot_bytes() const override;
  std::byte* slot(std::uint32_t member, std::uint64_t step) override;
  std::byte* own_slot(std::uint64_t step, std::size_t bytes) override;
  wait_status await(counter which, std::uint32_t member, std::uint64_t reached) override;
  void publish(counter which, std::uint64_t reached) override;
  void enter(local_phase phase, std::uint64_t step) override;

private:
  wait_status fail(error_kind kind, const std::string& text);

  const std::shared_ptr<shm_segment> segment_;
  const futex_wait waiting_;
  lane_placement placement_;
  const probe probe_;
  const work* bundle_ = nullptr;
  const deadline_and_abort* deadline_ = nullptr;
  std::chrono::nanoseconds timeout_{0}; ///< of a wait
  std::chrono::nanoseconds waited_{0};
  error problem_;
};

} // namespace farandole
