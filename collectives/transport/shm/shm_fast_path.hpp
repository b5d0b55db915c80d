// The fast path: operations among the members of one host without lane, event loop or leader.
//
// - Small allreduces and broadcasts, and barriers (fast_path_use::bytes): each framework thread writes its
//   tensor into the cell of its member for (id, round). A member that needs the sum reduces all cells in
//   rank order.
// - All other operations (fast_path_use::collective): the cell holds a row descriptor and progress
//   counters, and the waiting callers run the collective themselves (caller_collective.hpp).
//
// If a member cannot continue, the other members retract their cells, and the tensor is negotiated through
// the leader instead.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/operation.hpp"
#include "collectives/transport/shm/round_need.hpp"
#include "collectives/transport/shm/round_outcome.hpp"
#include "collectives/transport/shm/row_descriptor.hpp"
#include "collectives/transport/shm/shared_result_heap.hpp"
#include "collectives/transport/shm/shm_segment.hpp"
#include "collectives/transport/shm/staging_heap.hpp"
#include "collectives/transport/wait/core_placement.hpp"
#include "collectives/transport/wait/futex_wait.hpp"
#include "messages/record/tick_clock.hpp"
#include "messages/values/dtype.hpp"
#include "messages/values/error.hpp"
#include "messages/values/signature.hpp"

namespace farandole {

/// The operation that every round of a cell runs.
struct fast_path_task {
  farandole::operation operation = farandole::operation::allreduce; ///< or another with a fast_path_use
  farandole::dtype dtype = farandole::dtype::float32;
  farandole::reduce_op reduce_op = farandole::reduce_op::sum;
  double prescale = 1.0;
  double postscale = 1.0;
  std::int32_t root = -1; ///< broadcast: rank within the set
  std::size_t bytes = 0;  ///< size of the cell's contents: each member's tensor, or collective_cell_bytes()
  fast_path_use use = fast_path_use::bytes;
};

/// The location of one id in the fast-path area of every member. shm_fast_path::open() creates it and
/// checks its bounds.
class fast_path_cell {
public:
  std::uint32_t id() const { return id_; }
  const fast_path_task& task() const { return task_; }

private:
  friend class shm_fast_path;
  fast_path_cell(std::uint32_t id, std::size_t offset, std::size_t half_bytes, const fast_path_task& task)
      : id_(id), offset_(offset), half_bytes_(half_bytes), task_(task) {}

  std::uint32_t id_;
  std::size_t offset_;     ///< in the fast-path area of each member
  std::size_t half_bytes_; ///< distance between the two halves
  fast_path_task task_;
};

/// Different cells may be used by different threads. On one cell, one thread at a time publishes, waits and
/// collects, round after round; the event loop may retract concurrently. The class has more than 30 methods
/// because only it knows the layout of a cell: seven of them only compute addresses.
class shm_fast_path {
public:
  /// `rank`: this member's rank within the set and in the segment. `heaps`: the result heaps in which
  /// members write into each other's results; may be null.
  shm_fast_path(std::shared_ptr<shm_segment> shared, std::uint32_t rank, futex_wait policy,
                std::shared_ptr<const result_heaps> heaps = nullptr);

  std::uint32_t rank() const { return rank_; }
  std::uint32_t members() const { return members_; }
  /// Null if there are no result heaps.
  const std::shared_ptr<const result_heaps>& heaps() const { return heaps_; }

  /// Size of a cell in the fast-path area for a task of `bytes` bytes; a multiple of 128.
  static constexpr std::size_t footprint(std::size_t bytes) { return 2 * half_bytes(bytes); }
  /// Value of fast_path_task::bytes for fast_path_use::collective.
  static constexpr std::size_t collective_cell_bytes(std::size_t members) {
    return descriptor_half_bytes(members) - header_bytes + (sizeof(member_progress) + 1) / 2;
  }

  /// Opens the cell that the leader granted. Returns `invalid_argument` if the cell is outside the area,
  /// unaligned or too small, and `unimplemented` if the fast path does not support the task.
  expected<fast_path_cell> open(std::uint32_t id, std::int64_t offset, std::size_t cell_bytes,
                                const fast_path_task& task) const;

  /// Copies `input` (task.bytes bytes) into the cell and publishes it to the other members. `input` is not
  /// read for a barrier, nor for a broadcast with another root. The rounds of an id count up from 0; a
  /// round may be published only after the previous one was collected or is complete.
  void publish(const fast_path_cell& cell, std::uint64_t round, const std::byte* input);

  /// Whether the event `need` has happened.
  bool ready(const fast_path_cell& cell, std::uint64_t round, const round_need& need = {}) const;

  /// Whether another process has overwritten this member's mark of a round. Valid only for a round in
  /// progress in which this member has published. After such damage the other members may wait for this
  /// member for ever.
  bool damaged(const fast_path_cell& cell, std::uint64_t round) const;

  /// Waits until one of these happens:
  /// - `reached`: ready() would return true;
  /// - `noticed`: `notice` differs from `observed`; a thread that changes `notice` must call wake_local()
  ///   on it;
  /// - `expired`: the deadline has passed;
  /// - `interrupted`: the caller should check for signals.
  /// `patience`: see futex_wait::until().
  wait_end wait(const fast_path_cell& cell, std::uint64_t round, const std::atomic<std::uint32_t>& descriptor,
                std::uint32_t observed, std::chrono::steady_clock::time_point deadline,
                const round_need& need = {}, std::chrono::nanoseconds patience = {}) const;

  /// Writes the result to `output` (task.bytes bytes; null for a barrier). Call it once ready. Fails only
  /// if a member violated the protocol and overwrote a cell during the call.
  error collect(const fast_path_cell& cell, std::uint64_t round, std::byte* output) const;

  /// When the member published its cell in this round, in ticks of this host (tick_clock). Call it once the member has
  /// published.
  std::uint64_t published_at(const fast_path_cell& cell, std::uint32_t member, std::uint64_t round) const;

  /// Ranks (within the set) of the members that `need` still waits for. To have one report for the round,
  /// only one waiting member gets a non-empty answer: for `shown`, the lowest rank that has published.
  std::vector<std::int32_t> missing(const fast_path_cell& cell, std::uint64_t round,
                                    const round_need& need = {}) const;

  // ---- fast_path_use::collective ----

  /// Like publish(), for a row descriptor.
  void show(const fast_path_cell& cell, std::uint64_t round, const row_descriptor& own);
  /// Copies the row descriptors of all members, by rank. Call it once all members have published. `own` is
  /// this member's descriptor; its copy in shared memory is not read. Returns `unknown` if the descriptor
  /// of another member is damaged.
  expected<std::vector<row_descriptor>> descriptors(const fast_path_cell& cell, std::uint64_t round,
                                                    const row_descriptor& own) const;
  /// The progress counters of a member. Only that member writes them, and only while it takes part in a
  /// round.
  member_progress& progress(const fast_path_cell& cell, std::uint32_t member) const;
  std::span<std::byte> staging(std::uint32_t member) const { return segment_->staging(member); }
  /// This member's own staging memory.
  staging_heap& heap() { return heap_; }
  /// Moves the calling thread to another core if too many members share its core. The kernel does not move
  /// a thread that never sleeps. Call it once all members have published, before the round moves many
  /// bytes.
  void spread(const fast_path_cell& cell, std::uint64_t round) const;

  // ---- the outcome of a round: decided once, the same for all members

  /// Call it before this member writes into an output, which may also be its input. Unless it returns
  /// `given_up`, no member can retract the round afterwards. Returns the decision that holds. Only for
  /// fast_path_use::collective.
  round_outcome begin_output(const fast_path_cell& cell, std::uint64_t round);
  /// Call it once this member has seen that all members reached the last stage. Decides the round as
  /// `complete` unless a member gave it up before. Returns the outcome that holds; after `given_up`, the
  /// end of the generation or a retraction follows.
  round_outcome complete(const fast_path_cell& cell, std::uint64_t round);
  /// Call it when this member stops waiting for the round. Decides the round as `given_up` unless a member
  /// decided it as `complete` before. Returns the outcome that holds.
  round_outcome give_up(const fast_path_cell& cell, std::uint64_t round);

  /// The outcome of the round, if a member has decided it.
  std::optional<round_outcome> outcome(const fast_path_cell& cell, std::uint64_t round) const;

  /// Gives up the round and retracts this member's cell; returns true if the cell is retracted, now or
  /// before. Returns false and changes nothing if this member has not published in the round, the round is
  /// complete, or outputs are being written.
  bool retract(const fast_path_cell& cell, std::uint64_t round);

private:
  struct mark;
  struct header;
  static constexpr std::size_t header_bytes = 32;
  static constexpr std::size_t alignment = 64;
  static constexpr std::size_t half_bytes(std::size_t bytes) {
    return (header_bytes + bytes + alignment - 1) / alignment * alignment;
  }
  /// Size of a half that holds the header, the decision of begin_output(), and a row descriptor.
  static constexpr std::size_t descriptor_half_bytes(std::size_t members) {
    return half_bytes(sizeof(round_decision) + checked_bytes(descriptor_words(members)));
  }
  bool has_come(const fast_path_cell& cell, std::uint32_t member, std::uint64_t round) const;
  /// Whether the bytes that were just read from that member's cell belong to this round.
  bool still_stands(const fast_path_cell& cell, std::uint32_t member, std::uint64_t round) const;
  std::byte* half(const fast_path_cell& cell, std::uint32_t member, std::uint64_t round) const;
  mark& mark_of(const fast_path_cell& cell, std::uint32_t member, std::uint64_t round) const;
  round_decision& decision_of(const fast_path_cell& cell, std::uint64_t round) const;
  round_decision& beginning_of(const fast_path_cell& cell, std::uint64_t round) const;
  std::byte* bytes_of(const fast_path_cell& cell, std::uint32_t member, std::uint64_t round) const;
  template <class Write>
  void show_after(const fast_path_cell& cell, std::uint64_t round, const Write& write);
  wait_end wait_shown(const fast_path_cell& cell, std::uint64_t round,
                      const std::atomic<std::uint32_t>& descriptor, std::uint32_t observed,
                      std::chrono::steady_clock::time_point deadline,
                      std::chrono::nanoseconds patience) const;
  shared_counter& counter_of(const fast_path_cell& cell, const round_need& need) const;

  std::shared_ptr<shm_segment> segment_;
  std::uint32_t rank_;
  std::uint32_t members_;
  futex_wait waiting_;
  std::shared_ptr<const result_heaps> heaps_;
  core_placement placement_;
  staging_heap heap_;
  tick_clock clock_ = tick_clock::of_this_host();
};

} // namespace farandole
