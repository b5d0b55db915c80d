// Tensors among members on one host, without lane, loop or leader. Small ones that are reduced or broadcast:
// each framework thread writes its bytes into its member's cell for (id, round); who needs the result reduces
// all cells in rank order. Those of any size that are only copied: the cell holds a notice, by which members
// copy them straight into each other's results, or out of each other's memory (notice.hpp), and then each
// says that it has done its part. A member that cannot go on makes the others take their cells back
// (retract), and the tensor travels by the leader instead.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/paths/local/loan.hpp"
#include "collectives/paths/local/notice.hpp"
#include "collectives/paths/local/round_outcome.hpp"
#include "collectives/paths/local/window.hpp"
#include "collectives/paths/waiting/core_placement.hpp"
#include "collectives/paths/waiting/waiting.hpp"
#include "messages/dtype.hpp"
#include "messages/error.hpp"
#include "messages/signature.hpp"

namespace farandole {

/// What is done with the bytes of a cell, round after round.
struct board_task {
  farandole::operation operation = farandole::operation::allreduce; ///< or another that has board_use
  farandole::dtype dtype = farandole::dtype::float32;
  farandole::reduce_op reduce_op = farandole::reduce_op::sum;
  double prescale = 1.0;
  double postscale = 1.0;
  std::int32_t root = -1; ///< broadcast: rank within the set
  std::size_t bytes = 0;  ///< of each member's tensor; board_use::notice: notice_bytes()
};

/// How far a member has come in a round.
enum class board_stage : std::uint8_t {
  shown, ///< its cell is there
  taken, ///< board_use::notice: it has copied what is for it, and given the others what is for them
};

/// One id's place in every member's board area. A value; made by board::open, which has checked its bounds.
class board_cell {
public:
  std::uint32_t id() const { return id_; }
  const board_task& task() const { return task_; }

private:
  friend class board;
  board_cell(std::uint32_t id, std::size_t offset, std::size_t half_bytes, const board_task& task)
      : id_(id), offset_(offset), half_bytes_(half_bytes), task_(task) {}

  std::uint32_t id_;
  std::size_t offset_;     ///< in a board area
  std::size_t half_bytes_; ///< distance of the two halves
  board_task task_;
};

/// Thread-safe across cells. On one cell, one thread at a time publishes, waits and collects, round after
/// round; the loop may retract meanwhile.
class board {
public:
  /// `rank`: this member's within the set and in the window. `circle`: by which tensors are lent; may be
  /// null.
  board(std::shared_ptr<window> shared, std::uint32_t rank, waiting policy,
        std::shared_ptr<const lending_circle> circle = nullptr);

  std::uint32_t rank() const { return rank_; }
  std::uint32_t members() const { return members_; }
  /// Whether members can copy out of each other's memory; the same on all.
  bool lends() const { return circle_ && circle_->all_reach_all; }
  /// Where the others can write to; null when not all members can.
  const std::shared_ptr<farandole::arena>& arena() const;

  /// What a cell takes of the board area, for a task of `bytes`; a multiple of the alignment of cells (64).
  static constexpr std::size_t footprint(std::size_t bytes) { return 2 * half_bytes(bytes); }

  /// The cell that the leader granted. `invalid_argument` when it does not lie inside the area, is not
  /// aligned, or is too small; `unimplemented` for what the board cannot do.
  expected<board_cell> open(std::uint32_t id, std::int64_t offset, std::size_t cell_bytes,
                            const board_task& task) const;

  /// Copies `input` (task.bytes, or a notice; unread where a broadcast has another root, or for a barrier)
  /// and shows it to the others. Rounds of an id go up by one from 0, each after the one before was
  /// collected, or taken by all.
  void publish(const board_cell& cell, std::uint64_t round, const std::byte* input);

  /// Whether every member has come to this stage of this round.
  bool ready(const board_cell& cell, std::uint64_t round, board_stage stage = board_stage::shown) const;

  /// Of a stage to which this member has come, in a round that is under way: whether its own mark has been
  /// overwritten by another process. The others may wait for it in vain.
  bool damaged(const board_cell& cell, std::uint64_t round, board_stage stage) const;

  /// Waits until ready (`reached`), `notice` is not `seen` (`noticed`), the deadline has passed (`expired`),
  /// or it is time to look at signals (`interrupted`). Who changes `notice` calls wake_local() on it.
  /// `patience`: see waiting::until().
  wait_end wait(const board_cell& cell, std::uint64_t round, const std::atomic<std::uint32_t>& notice,
                std::uint32_t seen, std::chrono::steady_clock::time_point deadline,
                board_stage stage = board_stage::shown, std::chrono::nanoseconds patience = {}) const;

  /// Once ready: fills `output` (task.bytes; null for a barrier). Fails only where a member broke the rules
  /// above and wrote a cell under us.
  error collect(const board_cell& cell, std::uint64_t round, std::byte* output) const;

  /// Who has not come to this stage, if this member has, and is the first that has: one of those who wait
  /// speaks for all. Ranks within the set.
  std::vector<std::int32_t> missing(const board_cell& cell, std::uint64_t round,
                                    board_stage stage = board_stage::shown) const;

  // ---- board_use::notice, where the board lends ----

  /// Once ready: all members' notices, by rank, copied. `own` is this member's, as it was published: what
  /// stands of it in shared memory is not read. `unknown` when another member's has been damaged there.
  expected<std::vector<notice>> notices(const board_cell& cell, std::uint64_t round, const notice& own) const;

  /// Gives the gifts, copies the pieces to `to` and says so to the others. `disconnected` when one of them
  /// has ended or taken its cell back, and nothing is said: the end of the generation is about to tell why.
  /// Another error when memory could not be read or written; that it has done its part is said all the same.
  error take(const board_cell& cell, std::uint64_t round, const taking& what, std::byte* to);
  /// Once all have taken: whether all could give what they had for others.
  bool all_gave(const board_cell& cell, std::uint64_t round) const;

  /// Nothing that is read of this member's tensor from now on is believed.
  void withdraw(const board_cell& cell, std::uint64_t round);

  // ---- the outcome of a round: decided once, the same for all members

  /// This member has seen that all came to the last stage (`shown`; `taken` of notices): the round is
  /// complete unless a member gave it up before. Returns what holds; after `given_up`, the end of the
  /// generation or a retraction follows.
  round_outcome complete(const board_cell& cell, std::uint64_t round);
  /// This member will not wait for the round any longer: the round is given up unless a member has found it
  /// complete before. Returns what holds.
  round_outcome give_up(const board_cell& cell, std::uint64_t round);

  /// Gives the round up and takes this member's cell back, if that has not been done. False, and nothing
  /// changes, when this member has not published there, or the round is complete.
  bool retract(const board_cell& cell, std::uint64_t round);

private:
  struct mark;
  struct header;
  static constexpr std::size_t mark_bytes = 16;
  static constexpr std::size_t header_bytes = 24;
  static constexpr std::size_t alignment = 64;
  static constexpr std::size_t half_bytes(std::size_t bytes) {
    return (header_bytes + bytes + alignment - 1) / alignment * alignment;
  }
  static board_stage last_stage(const board_cell& cell);
  bool has_come(const board_cell& cell, std::uint32_t member, std::uint64_t round, board_stage stage) const;
  /// Whether what was read of that member's cell, or of what it lends, was this round's.
  bool still_stands(const board_cell& cell, std::uint32_t member, std::uint64_t round) const;
  mark& mark_of(const board_cell& cell, std::uint32_t member, std::uint64_t round, board_stage stage) const;
  round_decision& decision_of(const board_cell& cell, std::uint64_t round) const;
  std::byte* bytes_of(const board_cell& cell, std::uint32_t member, std::uint64_t round) const;
  void make_room(const board_cell& cell, std::uint64_t round) const;
  static error gone(std::uint32_t member);
  void publish_notice(const board_cell& cell, std::uint64_t round, const std::byte* input);
  error give(const board_cell& cell, std::uint64_t round, const taking::gift& what) const;
  error copy(const board_cell& cell, std::uint64_t round, const taking::piece& what, std::byte* to) const;

  std::shared_ptr<window> window_;
  std::uint32_t rank_;
  std::uint32_t members_;
  waiting waiting_;
  std::shared_ptr<const lending_circle> circle_;
  core_placement placement_;
};

} // namespace farandole
