// What a collective in shared memory needs of the memory that its members share: slots that each member fills
// for the others, and counters by which each says how far it has come. The collectives (shm_collective.hpp)
// are written once against this interface; a lane waits where it must, and a caller that runs a collective
// itself is told to come back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/transport/shm/shm_segment.hpp"

namespace farandole {

/// What a member is about to do.
enum class local_phase : std::uint8_t { pack, reduce, unpack, wait };

/// Whether a collective may go on.
enum class arrival : std::uint8_t {
  there,  ///< what was waited for has come
  later,  ///< it has not come, and this thread must not block: ask again
  failed, ///< it will not come; the channel knows why
};

/// Steps are numbered alike on all members and only grow; step s uses slot s % slots() of each member. A
/// counter holds the number of steps that its member has come through, modulo 2^32.
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
  /// Of each slot, in whole cache lines.
  virtual std::size_t slot_bytes() const = 0;
  /// Another member's slot is read only after its `packed` or `reduced` counter has come to the step.
  virtual std::byte* slot(std::uint32_t member, std::uint64_t step) = 0;
  /// This member's slot, of which the first `bytes` are about to be written.
  virtual std::byte* own_slot(std::uint64_t step, std::size_t bytes) = 0;

  /// Until that member's counter has come to `reached` (acquire).
  virtual arrival await(counter which, std::uint32_t member, std::uint64_t reached) = 0;
  /// Of this member (release): the others may read what it has written before.
  virtual void publish(counter which, std::uint64_t reached) = 0;

  /// Before each phase of each step.
  virtual void enter([[maybe_unused]] local_phase phase, [[maybe_unused]] std::uint64_t step) {}
  /// Before outputs are written; `last`: this member waits for nothing any more afterwards. `failed` when the
  /// members have agreed to give the collective up, and outputs must stay as they are.
  virtual arrival commit([[maybe_unused]] bool last) { return arrival::there; }

  /// All other members' counters have come to `reached`.
  arrival await_all(counter which, std::uint64_t reached);
  /// This member's slot of `step` may be written: nobody reads the step that used it before.
  virtual arrival await_slot(std::uint64_t step);

private:
  std::uint32_t rank_;
  std::uint32_t members_;
};

} // namespace farandole
