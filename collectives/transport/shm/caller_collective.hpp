// One round of a collective that the waiting callers of one host run themselves on the fast path. The
// caller of each member stages its tensor in shared memory, publishes a row descriptor with the location,
// waits until all members have published, and then runs the same pipeline as a lane (shm_collective.hpp).
//
// The class never blocks. Where it would have to wait, advance() returns and need() names the event to wait
// for. The caller can then check for signals, stop waiting, or leave the rest to another thread.
//
// If a member crashes, its counters stop and the other members wait until the generation ends. All members
// still agree on the outcome of the round: a member proposes `complete` only after it has seen all progress
// that any member needs, and records it in one shared word (round_outcome.hpp) before it writes the last
// part of its output.
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

/// This member's tensor. The caller owns the buffers and must keep them valid until the caller_collective is
/// destroyed.
struct caller_tensor {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;      ///< null: the collective allocates the result
  std::size_t bytes = 0;            ///< size of the input
  std::size_t row_bytes = 0;        ///< size of a row, for operations that have rows
  std::int64_t rows = 0;            ///< number of rows, for operations that have rows
  std::vector<std::int64_t> splits; ///< alltoall: number of rows for each member
};

/// The arguments of a caller_collective. `fast_path` and `results` must outlive it.
struct caller_job {
  farandole::shm_fast_path& fast_path;
  const fast_path_cell cell;
  const std::uint64_t round;
  const std::uint64_t first_step; ///< steps of all earlier rounds together; the same on all members
  const caller_tensor tensor;
  result_memory& results;
  const std::size_t expected_bytes; ///< estimated result size, where the size is known only later
};

class caller_collective : private shm_channel {
public:
  explicit caller_collective(caller_job job);
  ~caller_collective() override;

  /// Returns the shared memory that this object holds. Call it once the round is complete or given up. need()
  /// may still be called afterwards.
  void release();

  /// Allocates the memory that the round needs. Returns false if too little memory is free now.
  bool prepare();
  /// Stages the first chunks of the tensor and publishes this member's row descriptor.
  void show();

  /// Result of advance().
  enum class state : std::uint8_t {
    waits,    ///< it waits for the event that need() returns
    done,     ///< the round succeeded on all members
    given_up, ///< a member gave the round up; the end of the generation, or a retraction, follows
    failed    ///< this member failed, for good; problem() has the reason
  };
  /// Runs the collective until it would have to wait. At most one thread at a time may call it.
  state advance();
  /// The event that the next advance() needs. Thread-safe.
  round_need need() const { return round_need::from_word(need_.load(std::memory_order_acquire)); }

  const error& problem() const { return problem_; }
  /// Number of steps that the round took. Call it only after `done`.
  std::uint64_t steps() const { return collective_ ? collective_->steps() : 0; }
  /// The result, where the collective allocated it: its memory, its size, and the number of rows received
  /// from each member (reducescatter: the number of this member's rows). Call them only after `done`.
  result_memory::block take_result() { return std::move(result_); }
  std::size_t result_bytes() const { return result_bytes_; }
  const std::vector<std::int64_t>& first_dims() const { return first_dims_; }

private:
  // Implementation of shm_channel.
  std::uint32_t slots() const override { return slots_; }
  std::size_t slot_bytes() const override { return slot_bytes_; }
  std::byte* slot(std::uint32_t member, std::uint64_t step) override;
  std::byte* own_slot(std::uint64_t step, std::size_t bytes) override;
  wait_status await(counter which, std::uint32_t member, std::uint64_t reached) override;
  wait_status await_slot(std::uint64_t step) override;
  void publish(counter which, std::uint64_t reached) override;
  wait_status commit(bool last) override;

  bool take_staging();
  void take_place();
  void describe();
  error open();
  error lay_out_rows(std::span<const row_descriptor> all);
  bool own_segment();
  bool own_result(std::size_t bytes);
  row_descriptor own_descriptor() const;
  void wait_for(const round_need& need) { need_.store(need.packed_word(), std::memory_order_release); }
  std::size_t most_staged() const;

  const caller_job job_;
  work bundle_;
  member_streams streams_;
  std::unique_ptr<shm_collective> collective_;
  std::uint32_t slots_ = 1;
  std::size_t slot_bytes_ = 0;
  std::optional<staging_heap::range> staged_;
  std::vector<std::byte*> bases_; ///< start of each member's slots, by rank; empty until opened
  result_memory::block result_;
  std::size_t result_bytes_ = 0;
  std::vector<std::int64_t> first_dims_;
  bool shown_place_ = false; ///< other members may write into `result_` until all are done
  bool opened_ = false;      ///< all members have published, and their row descriptors have been read
  bool begun_ = false;       ///< begin_output() was called: no member can retract the round any more
  bool complete_ = false;
  error problem_;
  std::atomic<std::uint64_t> need_{round_need{}.packed_word()};
};

} // namespace farandole
