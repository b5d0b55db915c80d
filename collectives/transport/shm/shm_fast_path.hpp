// The fast path: tensors among members on one host, without lane, loop or leader. Small tensors that are
// reduced or broadcast: each framework thread writes its bytes into its member's cell for (id, round);
// whoever needs the result reduces all cells in rank order. All others: the cell holds a row descriptor and counters
// of progress, and the waiting callers run the collective themselves (caller_collective.hpp). A member that
// cannot go on makes the others take their cells back (retract), and the tensor travels by the leader
// instead.
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
#include "messages/values/dtype.hpp"
#include "messages/values/error.hpp"
#include "messages/values/signature.hpp"

namespace farandole {

/// What is done with the tensor of a cell, round after round.
struct fast_path_task {
  farandole::operation operation = farandole::operation::allreduce; ///< or another that has board_use
  farandole::dtype dtype = farandole::dtype::float32;
  farandole::reduce_op reduce_op = farandole::reduce_op::sum;
  double prescale = 1.0;
  double postscale = 1.0;
  std::int32_t root = -1; ///< broadcast: rank within the set
  std::size_t bytes = 0;  ///< that the cell holds: of each member's tensor, or collective_cell_bytes()
  fast_path_use use = fast_path_use::bytes;
};

/// One id's place in every member's fast path area. A value; made by board::open, which has checked its bounds.
class fast_path_cell {
public:
  std::uint32_t id() const { return id_; }
  const fast_path_task& task() const { return task_; }

private:
  friend class shm_fast_path;
  fast_path_cell(std::uint32_t id, std::size_t offset, std::size_t half_bytes, const fast_path_task& task)
      : id_(id), offset_(offset), half_bytes_(half_bytes), task_(task) {}

  std::uint32_t id_;
  std::size_t offset_;     ///< in a fast path area
  std::size_t half_bytes_; ///< distance of the two halves
  fast_path_task task_;
};

/// Thread-safe across cells. On one cell, one thread at a time publishes, waits and collects, round after
/// round; the loop may retract meanwhile. Has more than 30 methods because the layout of a cell is known here
/// alone: seven of them only compute addresses in it.
class shm_fast_path {
public:
  /// `rank`: this member's within the set and in the segment. `result heaps`: where members write into each other's
  /// results; may be null.
  shm_fast_path(std::shared_ptr<shm_segment> shared, std::uint32_t rank, futex_wait policy,
                std::shared_ptr<const result_heaps> heaps = nullptr);

  std::uint32_t rank() const { return rank_; }
  std::uint32_t members() const { return members_; }
  /// Null where there are none.
  const std::shared_ptr<const result_heaps>& heaps() const { return heaps_; }

  /// What a cell takes of the fast path area, for a task of `bytes`; a multiple of 128.
  static constexpr std::size_t footprint(std::size_t bytes) { return 2 * half_bytes(bytes); }
  /// What a cell of board_use::collective holds, as a task's `bytes`.
  static constexpr std::size_t collective_cell_bytes(std::size_t members) {
    return notice_half_bytes(members) - header_bytes + (sizeof(member_progress) + 1) / 2;
  }

  /// The cell that the leader granted. `invalid_argument` when it does not lie inside the area, is not
  /// aligned, or is too small; `unimplemented` for what the fast path cannot do.
  expected<fast_path_cell> open(std::uint32_t id, std::int64_t offset, std::size_t cell_bytes,
                                const fast_path_task& task) const;

  /// Copies `input` (task.bytes; unread where a broadcast has another root, or for a barrier) and shows it to
  /// the others. Rounds of an id go up by one from 0, each after the one before was collected, or is
  /// complete.
  void publish(const fast_path_cell& cell, std::uint64_t round, const std::byte* input);

  /// Whether what is waited for has come.
  bool ready(const fast_path_cell& cell, std::uint64_t round, const round_need& need = {}) const;

  /// Of a round in which this member has published, and which is under way: whether its own mark, or its
  /// progress, has been overwritten by another process. The others may wait for it in vain.
  bool damaged(const fast_path_cell& cell, std::uint64_t round) const;

  /// Waits until ready (`reached`), `row descriptor` is not `seen` (`noticed`), the deadline has passed (`expired`),
  /// or it is time to look at signals (`interrupted`). Who changes `row descriptor` calls wake_local() on it.
  /// `patience`: see waiting::until().
  wait_end wait(const fast_path_cell& cell, std::uint64_t round, const std::atomic<std::uint32_t>& notice,
                std::uint32_t observed, std::chrono::steady_clock::time_point deadline,
                const round_need& need = {}, std::chrono::nanoseconds patience = {}) const;

  /// Once ready: fills `output` (task.bytes; null for a barrier). Fails only where a member broke the rules
  /// above and wrote a cell under us.
  error collect(const fast_path_cell& cell, std::uint64_t round, std::byte* output) const;

  /// Who has not come, if this member has, and is the first that has: one of those that wait speaks for all.
  /// Ranks within the set.
  std::vector<std::int32_t> missing(const fast_path_cell& cell, std::uint64_t round,
                                    const round_need& need = {}) const;

  // ---- board_use::collective ----

  /// As publish().
  void show(const fast_path_cell& cell, std::uint64_t round, const row_descriptor& own);
  /// Once all are shown: all members' row descriptors, by rank, copied. `own` is this member's: what stands of it in
  /// shared memory is not read. `unknown` when another member's has been damaged there.
  expected<std::vector<row_descriptor>> notices(const fast_path_cell& cell, std::uint64_t round,
                                                const row_descriptor& own) const;
  /// Written by that member alone, and only while it takes part in a round.
  member_progress& progress(const fast_path_cell& cell, std::uint32_t member) const;
  std::span<std::byte> staging(std::uint32_t member) const { return segment_->staging(member); }
  /// This member's own staging memory.
  staging_heap& heap() { return heap_; }
  /// Those that are about to move many bytes spread over the cores: the kernel leaves a thread that never
  /// sleeps where it is. Once all are shown.
  void spread(const fast_path_cell& cell, std::uint64_t round) const;

  // ---- the outcome of a round: decided once, the same for all members

  /// Before this member writes into an output that may be its input. From then on no member takes the round
  /// back. Returns what holds. board_use::collective.
  round_outcome begin_output(const fast_path_cell& cell, std::uint64_t round);
  /// This member has seen that all came to the last stage: the round is complete unless a member gave it up
  /// before. Returns what holds; after `given_up`, the end of the generation or a retraction follows.
  round_outcome complete(const fast_path_cell& cell, std::uint64_t round);
  /// This member will not wait for the round any longer: the round is given up unless a member has found it
  /// complete before. Returns what holds.
  round_outcome give_up(const fast_path_cell& cell, std::uint64_t round);

  /// Gives the round up and takes this member's cell back, if that has not been done. False, and nothing
  /// changes, when this member has not published there, the round is complete, or outputs are being written.
  bool retract(const fast_path_cell& cell, std::uint64_t round);

private:
  struct mark;
  struct header;
  static constexpr std::size_t header_bytes = 24;
  static constexpr std::size_t alignment = 64;
  static constexpr std::size_t half_bytes(std::size_t bytes) {
    return (header_bytes + bytes + alignment - 1) / alignment * alignment;
  }
  /// Of a half with a row descriptor: the header, the decision to begin, and the row descriptor.
  static constexpr std::size_t notice_half_bytes(std::size_t members) {
    return half_bytes(sizeof(round_decision) + checked_bytes(notice_words(members)));
  }
  bool has_come(const fast_path_cell& cell, std::uint32_t member, std::uint64_t round) const;
  /// Whether what was read of that member's cell was this round's.
  bool still_stands(const fast_path_cell& cell, std::uint32_t member, std::uint64_t round) const;
  std::byte* half(const fast_path_cell& cell, std::uint32_t member, std::uint64_t round) const;
  mark& mark_of(const fast_path_cell& cell, std::uint32_t member, std::uint64_t round) const;
  round_decision& decision_of(const fast_path_cell& cell, std::uint64_t round) const;
  round_decision& beginning_of(const fast_path_cell& cell, std::uint64_t round) const;
  std::byte* bytes_of(const fast_path_cell& cell, std::uint32_t member, std::uint64_t round) const;
  template <class Write>
  void show_after(const fast_path_cell& cell, std::uint64_t round, const Write& write);
  wait_end wait_shown(const fast_path_cell& cell, std::uint64_t round,
                      const std::atomic<std::uint32_t>& notice, std::uint32_t observed,
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
};

} // namespace farandole
