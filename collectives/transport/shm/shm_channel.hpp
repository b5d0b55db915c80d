// The interface between a collective in shared memory and the memory that its members share: slots that
// each member fills for the others, and counters by which each member publishes its progress.
//
// The collectives (shm_collective.hpp) are written once against this interface. It has two implementations:
// the waits of a lane block (lane_channel.hpp); for a caller that runs a collective itself they return
// wait_status::would_block instead (caller_collective.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/transport/shm/shm_segment.hpp"

namespace farandole {

/// The phase that a member enters.
enum class local_phase : std::uint8_t { pack, reduce, unpack, wait };

/// Result of a wait.
enum class wait_status : std::uint8_t {
  satisfied,   ///< the awaited condition holds
  would_block, ///< it does not hold yet, and this thread must not block: call again
  failed,      ///< it will never hold; the channel has the reason
};

/// All members use the same step numbers, which only grow. Step s uses slot s % slots() of each member. A
/// counter holds the number of steps that its member has completed, modulo 2^32.
class shm_channel {
public:
  using counter = shared_counter member_progress::*;

  shm_channel(std::uint32_t rank, std::uint32_t members) : rank_(rank), members_(members) {}
  virtual ~shm_channel() = default;
  shm_channel(const shm_channel&) = delete;
  shm_channel& operator=(const shm_channel&) = delete;

  std::uint32_t rank() const { return rank_; }
  std::uint32_t members() const { return members_; }

  virtual std::uint32_t slots() const = 0;
  /// Size of each slot, a multiple of the cache line size.
  virtual std::size_t slot_bytes() const = 0;
  /// The slot of a member. Another member's slot may be read only after its `packed` or `reduced` counter has
  /// reached the step.
  virtual std::byte* slot(std::uint32_t member, std::uint64_t step) = 0;
  /// This member's slot. The caller is about to write its first `bytes` bytes.
  virtual std::byte* own_slot(std::uint64_t step, std::size_t bytes) = 0;

  /// Waits until the counter of `member` has reached `reached` (acquire).
  virtual wait_status await(counter which, std::uint32_t member, std::uint64_t reached) = 0;
  /// Sets this member's counter (release). The other members may then read all that this member wrote before.
  virtual void publish(counter which, std::uint64_t reached) = 0;

  /// Called before each phase of each step.
  virtual void enter([[maybe_unused]] local_phase phase, [[maybe_unused]] std::uint64_t step) {}
  /// Called before outputs are written. `last`: this member will not wait for anything afterwards. Returns
  /// `failed` if the members have agreed to give up the collective; outputs must then remain unchanged.
  virtual wait_status commit([[maybe_unused]] bool last) { return wait_status::satisfied; }

  /// Waits until the counters of all other members have reached `reached`.
  wait_status await_all(counter which, std::uint64_t reached);
  /// Waits until this member may write its slot of `step`: no member still reads the earlier step that used
  /// it.
  virtual wait_status await_slot(std::uint64_t step);

private:
  std::uint32_t rank_;
  std::uint32_t members_;
};

} // namespace farandole
