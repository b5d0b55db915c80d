// One round of a collective that the waiting callers on one host run themselves: each member's caller stages
// its tensor in shared memory and shows where, waits until all members have, and then goes through the same
// pipeline as a lane (shm_collective.hpp). It never blocks: where it would have to wait it says for what, so
// that a caller can look at signals meanwhile, stop waiting, and leave the rest to another thread.
//
// A crash of a member leaves its counters where they are: the others wait until the generation ends. They
// come to one outcome all the same, because a member ends well only after it has seen everything that any
// member needs, and then says so in one word (round_outcome.hpp) before it writes the last of its output.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/transport/shm/result_memory.hpp"
#include "collectives/transport/shm/shm_collective.hpp"
#include "collectives/transport/shm/shm_fast_path.hpp"

namespace farandole {

/// This member's tensor. The buffers are touched from begin() on until the collective is gone.
struct caller_tensor {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;      ///< null where the result is allocated here
  std::size_t bytes = 0;            ///< of the input
  std::size_t row_bytes = 0;        ///< where the operation has rows
  std::int64_t rows = 0;            ///< likewise
  std::vector<std::int64_t> splits; ///< alltoall: rows for each member
};

/// What a caller's collective works on; fast path and results outlive it.
struct caller_job {
  farandole::shm_fast_path& fast_path;
  const fast_path_cell cell;
  const std::uint64_t round;
  const std::uint64_t first_step; ///< alike on all members: the steps that all rounds before have taken
  const caller_tensor tensor;
  result_memory& results;
  const std::size_t expected_bytes; ///< of what comes to this member, where that is known only later
};

class caller_collective : private shm_channel {
public:
  explicit caller_collective(caller_job job);
  ~caller_collective() override;

  /// Gives back what it holds of shared memory, once the round is complete or given up; need() can be asked
  /// on.
  void release();

  /// Takes the memory that it needs. False where there is none now.
  bool prepare();
  /// Stages what can be staged, and shows it.
  void show();

  /// How far advance() has come.
  enum class state : std::uint8_t {
    waits,    ///< for need()
    done,     ///< well, on all members
    given_up, ///< by a member: the end of the generation, or a retraction, follows
    failed    ///< for a reason of this member's: see problem()
  };
  /// Goes on for as long as it need not wait. One thread at a time.
  state advance();
  /// Any thread may look.
  round_need need() const { return round_need::from_word(need_.load(std::memory_order_acquire)); }

  const error& problem() const { return problem_; }
  /// Once done. How many steps it took.
  std::uint64_t steps() const { return collective_ ? collective_->steps() : 0; }
  /// Once done, where the result was allocated here: its memory, its size, and the rows that came from each
  /// member (reducescatter: this member's).
  result_memory::block take_result() { return std::move(result_); }
  std::size_t result_bytes() const { return result_bytes_; }
  const std::vector<std::int64_t>& first_dims() const { return first_dims_; }

private:
  // The channel.
  std::uint32_t slots() const override { return slots_; }
  std::size_t slot_bytes() const override { return slot_bytes_; }
  std::byte* slot(std::uint32_t member, std::uint64_t step) override;
  std::byte* own_slot(std::uint64_t step, std::size_t bytes) override;
  arrival await(counter which, std::uint32_t member, std::uint64_t reached) override;
  arrival await_slot(std::uint64_t step) override;
  void publish(counter which, std::uint64_t reached) override;
  arrival commit(bool last) override;

  bool take_staging();
  void take_place();
  void describe();
  error open();
  error lay_out_rows(std::span<const row_descriptor> all);
  bool own_segment();
  bool own_result(std::size_t bytes);
  row_descriptor own_notice() const;
  void wait_for(const round_need& need) { need_.store(need.packed_word(), std::memory_order_release); }
  std::size_t most_staged() const;

  const caller_job job_;
  work bundle_;
  member_streams streams_;
  std::unique_ptr<shm_collective> collective_;
  std::uint32_t slots_ = 1;
  std::size_t slot_bytes_ = 0;
  std::optional<staging_heap::place> staged_;
  std::vector<std::byte*> bases_; ///< of all members' slots, once opened
  result_memory::block result_;
  std::size_t result_bytes_ = 0;
  std::vector<std::int64_t> first_dims_;
  bool shown_place_ = false; ///< others may write into `result_` until all have said that they are done
  bool opened_ = false;      ///< all members are shown, and their row descriptors read
  bool begun_ = false;       ///< outputs may be written: no member takes the round back any more
  bool complete_ = false;
  error problem_;
  std::atomic<std::uint64_t> need_{round_need{}.packed_word()};
};

} // namespace farandole
