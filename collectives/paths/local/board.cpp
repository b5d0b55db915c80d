#include "collectives/paths/local/board.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <string>

#include "collectives/math/reduce.hpp"
#include "collectives/operation.hpp"
#include "collectives/paths/bulk_copy.hpp"
#include "collectives/paths/local/board_mark.hpp"

namespace farandole {

// Why two halves are enough. A member publishes round r+2 only after it has collected r+1; r+1 was ready only
// after every member had published it, and each did so only after it had collected r. So when the half of r
// is written again, for r+2, nobody reads r any more, and no member is ever more than one round ahead of
// another.
//
// Whether a round ended well does not follow from the words of the marks (board_mark.hpp), which a member
// reads one after the other while others change them: the outcome of a round stands in a word of its own
// (round_outcome.hpp), in the half of member 0, whose cache line every member reads anyway.

namespace {

static_assert(std::endian::native == std::endian::little, "sleepers watch the low half of a word");

/// After so many bytes a member looks whether they are still lent.
constexpr std::size_t look_bytes = std::size_t{16} << 20;

} // namespace

/// One begins each half, with the round's outcome; behind them are the tensor's bytes, or a second mark and
/// the notice. The note of what is lent says on which core its member was when it showed its notice; that of
/// the second mark, whether something that it had for others could not be given.
struct board::mark : basic_board_mark<machine_atomics> {
  void show(std::uint64_t next) {
    basic_board_mark::show(next, [this] { wake_shared(&word); });
  }
  void withdraw(std::uint64_t retracted) {
    basic_board_mark::withdraw(retracted, [this] { wake_shared(&word); });
  }
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(std::atomic<std::uint64_t>) == 8);
};

/// The start of a half.
struct board::header {
  mark shown;
  round_decision decision; ///< of this round; used in member 0's half only
};

board::board(std::shared_ptr<window> shared, std::uint32_t rank, waiting policy,
             std::shared_ptr<const lending_circle> circle)
    : window_(std::move(shared)), rank_(rank), members_(window_->layout().members), waiting_(policy),
      circle_(std::move(circle)), placement_(members_, rank_, usable_cores()) {
  static_assert(sizeof(header) == header_bytes && sizeof(mark) == mark_bytes &&
                notice_bytes(0) == mark_bytes + checked_bytes(notice_words(0)));
  assert(rank_ < members_);
}

expected<board_cell> board::open(std::uint32_t id, std::int64_t offset, std::size_t cell_bytes,
                                 const board_task& task) const {
  const auto wrong = [&](const std::string& why) {
    return error{error_kind::invalid_argument, "board cell of id " + std::to_string(id) + ": " + why};
  };
  const std::size_t area = window_->layout().board_bytes;
  const auto use = row_of(task.operation).on_board;
  if (use == board_use::none || task.reduce_op == reduce_op::adasum ||
      (row_of(task.operation).reduces && task.dtype == dtype::boolean))
    return error{error_kind::unimplemented, std::string(row_of(task.operation).name) + " of " +
                                                std::string(to_string(task.dtype)) +
                                                " has no place on the board"};
  if (row_of(task.operation).has_root && (task.root < 0 || static_cast<std::uint32_t>(task.root) >= members_))
    return wrong("root " + std::to_string(task.root) + " is none of " + std::to_string(members_) +
                 " members");
  if (use == board_use::notice ? task.bytes != notice_bytes(members_) : task.bytes % size_of(task.dtype) != 0)
    return wrong(std::to_string(task.bytes) + " bytes are no whole number of elements");
  if (offset < 0 || static_cast<std::uint64_t>(offset) % alignment != 0)
    return wrong("offset " + std::to_string(offset) + " is not aligned");
  if (static_cast<std::uint64_t>(offset) > area || cell_bytes > area - static_cast<std::uint64_t>(offset))
    return wrong(std::to_string(cell_bytes) + " bytes at " + std::to_string(offset) +
                 " reach beyond the board's " + std::to_string(area));
  // The tensor is compared with the area before it is added to anything: no sum below can wrap around.
  if (task.bytes > area || footprint(task.bytes) > cell_bytes)
    return wrong(std::to_string(cell_bytes) + " bytes do not hold two rounds of " +
                 std::to_string(task.bytes));
  return board_cell(id, static_cast<std::size_t>(offset), half_bytes(task.bytes), task);
}

void board::publish(const board_cell& cell, std::uint64_t round, const std::byte* input) {
  mark& own = mark_of(cell, rank_, round, board_stage::shown);
  const std::uint64_t word = make_word(cell.id_, round, cell_state::published);
  assert(own.word.load(std::memory_order_relaxed) != word && "a round is published once");
  own.hide(make_word(cell.id_, round, cell_state::empty));
  const auto& task = cell.task_;
  const bool brings =
      task.operation != operation::barrier &&
      (task.operation != operation::broadcast || static_cast<std::uint32_t>(task.root) == rank_);
  const bool lends = row_of(task.operation).on_board == board_use::notice;
  if (lends)
    publish_notice(cell, round, input);
  else if (brings && task.bytes > 0)
    std::memcpy(bytes_of(cell, rank_, round), input, task.bytes);
  own.show(word);
}

bool board::has_come(const board_cell& cell, std::uint32_t member, std::uint64_t round,
                     board_stage stage) const {
  return mark_of(cell, member, round, stage).has_come(make_word(cell.id_, round, cell_state::published));
}

bool board::still_stands(const board_cell& cell, std::uint32_t member, std::uint64_t round) const {
  return mark_of(cell, member, round, board_stage::shown)
      .still_stands(make_word(cell.id_, round, cell_state::published));
}

bool board::ready(const board_cell& cell, std::uint64_t round, board_stage stage) const {
  for (std::uint32_t member = 0; member < members_; ++member)
    if (!has_come(cell, member, round, stage))
      return false;
  return true;
}

bool board::damaged(const board_cell& cell, std::uint64_t round, board_stage stage) const {
  const auto own = mark_of(cell, rank_, round, stage).word.load(std::memory_order_acquire);
  return own != make_word(cell.id_, round, cell_state::published) &&
         own != make_word(cell.id_, round, cell_state::retracted);
}

wait_end board::wait(const board_cell& cell, std::uint64_t round, const std::atomic<std::uint32_t>& notice,
                     std::uint32_t seen, std::chrono::steady_clock::time_point deadline, board_stage stage,
                     std::chrono::nanoseconds patience) const {
  for (std::uint32_t i = 1; i < members_; ++i) {
    const std::uint32_t member = (rank_ + i) % members_;
    mark& theirs = mark_of(cell, member, round, stage);
    const watched what{&theirs.word, theirs.waiters, notice, seen, deadline, true};
    const auto end = waiting_.until(
        what, [&] { return has_come(cell, member, round, stage); }, patience);
    if (end != wait_end::reached)
      return end;
  }
  // All others have come. If this member's own cell is not there any more it was retracted, and somebody must
  // have told so; the caller looks at its notice.
  return has_come(cell, rank_, round, stage) ? wait_end::reached : wait_end::noticed;
}

error board::collect(const board_cell& cell, std::uint64_t round, std::byte* output) const {
  const auto& task = cell.task_;
  if (task.operation == operation::allreduce && task.bytes > 0) {
    // A few pointers: on the stack for all but the largest hosts.
    const std::byte* few[16];
    std::vector<const std::byte*> many;
    if (members_ > std::size(few))
      many.resize(members_);
    const std::span<const std::byte*> inputs = members_ > std::size(few)
                                                   ? std::span<const std::byte*>(many)
                                                   : std::span<const std::byte*>(few, members_);
    for (std::uint32_t member = 0; member < members_; ++member)
      inputs[member] = bytes_of(cell, member, round);
    reduce(task.dtype, task.reduce_op, output, inputs, task.bytes / size_of(task.dtype), task.prescale,
           task.postscale, members_);
  } else if (task.operation == operation::broadcast && task.bytes > 0) {
    std::memcpy(output, bytes_of(cell, static_cast<std::uint32_t>(task.root), round), task.bytes);
  }
  bool whole = true;
  for (std::uint32_t member = 0; member < members_; ++member)
    whole = whole && still_stands(cell, member, round);
  if (whole)
    return {};
  return {error_kind::unknown, "the board's cell of id " + std::to_string(cell.id_) +
                                   " was overwritten in round " + std::to_string(round)};
}

std::vector<std::int32_t> board::missing(const board_cell& cell, std::uint64_t round,
                                         board_stage stage) const {
  std::vector<std::int32_t> late;
  for (std::uint32_t member = 0; member < members_; ++member)
    if (!has_come(cell, member, round, stage))
      late.push_back(static_cast<std::int32_t>(member));
  // All before this member are late, and this member is not.
  const bool first =
      late.size() >= rank_ && (rank_ == 0 || late[rank_ - 1] == static_cast<std::int32_t>(rank_) - 1);
  return first && has_come(cell, rank_, round, stage) ? late : std::vector<std::int32_t>{};
}

round_outcome board::complete(const board_cell& cell, std::uint64_t round) {
  return decision_of(cell, round).decide(cell.id_, round, round_outcome::complete);
}

round_outcome board::give_up(const board_cell& cell, std::uint64_t round) {
  return decision_of(cell, round).decide(cell.id_, round, round_outcome::given_up);
}

bool board::retract(const board_cell& cell, std::uint64_t round) {
  mark& own = mark_of(cell, rank_, round, board_stage::shown);
  const auto published = make_word(cell.id_, round, cell_state::published);
  const auto retracted = make_word(cell.id_, round, cell_state::retracted);
  const auto seen = own.word.load(std::memory_order_relaxed);
  if (seen == retracted)
    return true;
  if (seen != published || ready(cell, round, last_stage(cell)) ||
      give_up(cell, round) == round_outcome::complete)
    return false;
  return own.take_back(published, retracted);
}

board_stage board::last_stage(const board_cell& cell) {
  return row_of(cell.task_.operation).on_board == board_use::notice ? board_stage::taken : board_stage::shown;
}

board::mark& board::mark_of(const board_cell& cell, std::uint32_t member, std::uint64_t round,
                            board_stage stage) const {
  const std::size_t first = cell.offset_ + (round & 1) * cell.half_bytes_;
  return *reinterpret_cast<mark*>(window_->board(member).data() + first +
                                  (stage == board_stage::taken ? header_bytes : 0));
}

round_decision& board::decision_of(const board_cell& cell, std::uint64_t round) const {
  const std::size_t first = cell.offset_ + (round & 1) * cell.half_bytes_;
  return reinterpret_cast<header*>(window_->board(0).data() + first)->decision;
}

std::byte* board::bytes_of(const board_cell& cell, std::uint32_t member, std::uint64_t round) const {
  const std::size_t before =
      header_bytes + (row_of(cell.task_.operation).on_board == board_use::notice ? mark_bytes : 0);
  return window_->board(member).data() + cell.offset_ + (round & 1) * cell.half_bytes_ + before;
}

const std::shared_ptr<arena>& board::arena() const {
  static const std::shared_ptr<farandole::arena> none;
  return circle_ ? circle_->own_arena : none;
}

// ---- tensors that are lent -----------------------------------------------------------------------

void board::publish_notice(const board_cell& cell, std::uint64_t round, const std::byte* input) {
  notice words(notice_words(members_));
  std::memcpy(words.data(), input, words.size() * sizeof words[0]);
  write_checked(bytes_of(cell, rank_, round), words, {rank_, cell.id_, round});
  mark_of(cell, rank_, round, board_stage::shown)
      .note.store(static_cast<std::uint32_t>(sched_getcpu()), std::memory_order_relaxed);
}

expected<std::vector<notice>> board::notices(const board_cell& cell, std::uint64_t round,
                                             const notice& own) const {
  std::vector<notice> all(members_, notice(notice_words(members_)));
  for (std::uint32_t member = 0; member < members_; ++member)
    if (member == rank_)
      all[member] = own;
    else if (!read_checked(bytes_of(cell, member, round), all[member], {member, cell.id_, round}))
      return error{error_kind::unknown, "the notice of local member " + std::to_string(member) +
                                            " in round " + std::to_string(round) +
                                            " does not match its checksum: its memory was damaged"};
  return all;
}

error board::take(const board_cell& cell, std::uint64_t round, const taking& what, std::byte* to) {
  if (what.bytes >= worth_moving_bytes)
    make_room(cell, round);
  error problem;
  const auto failed = [&problem](error&& why) {
    if (why && !problem)
      problem = std::move(why);
    return problem.kind == error_kind::disconnected;
  };
  for (const auto& gift : what.gifts)
    if (failed(give(cell, round, gift)))
      return problem;
  const bool gave = !problem && !what.spoilt;
  for (const auto& piece : what.pieces)
    if (failed(copy(cell, round, piece, to + piece.at)))
      return problem;
  mark& done = mark_of(cell, rank_, round, board_stage::taken);
  done.note.store(gave ? 0 : 1, std::memory_order_relaxed);
  done.show(make_word(cell.id_, round, cell_state::published));
  return problem;
}

bool board::all_gave(const board_cell& cell, std::uint64_t round) const {
  for (std::uint32_t member = 0; member < members_; ++member)
    if (mark_of(cell, member, round, board_stage::taken).note.load(std::memory_order_relaxed) != 0)
      return false;
  return true;
}

// Those that are about to copy spread over the cores: the kernel leaves who never sleeps where it is.
void board::make_room(const board_cell& cell, std::uint64_t round) const {
  std::vector<int> cores;
  for (std::uint32_t member = 0; member < members_; ++member)
    cores.push_back(static_cast<int>(
        mark_of(cell, member, round, board_stage::shown).note.load(std::memory_order_relaxed)));
  placement_.spread(cores);
}

error board::gone(std::uint32_t member) {
  return {error_kind::disconnected,
          "local member " + std::to_string(member) + " has ended, or taken back what it had lent"};
}

// Whoever takes its place back gives it to nobody else, so what is written too late harms nobody.
error board::give(const board_cell& cell, std::uint64_t round, const taking::gift& what) const {
  auto* const to = arena() ? circle_->arenas[what.member].at(what.at, what.bytes) : nullptr;
  if (!to)
    return {error_kind::unknown, "local member " + std::to_string(what.member) + " has no place for " +
                                     std::to_string(what.bytes) + " bytes where it says"};
  const auto* const from = reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(what.from));
  for (std::size_t done = 0; done < what.bytes;) {
    const auto next = std::min(look_bytes, what.bytes - done);
    bulk_copy(to + done, from + done, next);
    if (!has_come(cell, what.member, round, board_stage::shown))
      return gone(what.member);
    done += next;
  }
  return {};
}

error board::copy(const board_cell& cell, std::uint64_t round, const taking::piece& what,
                  std::byte* to) const {
  if (what.member == rank_) {
    bulk_copy(to, reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(what.from)), what.bytes);
    return {};
  }
  const auto& lender = circle_->others[what.member];
  for (std::size_t done = 0; done < what.bytes;) {
    const auto next = std::min(look_bytes, what.bytes - done);
    const int why = lender.copy(what.from + done, {to + done, next});
    if (!still_stands(cell, what.member, round))
      return gone(what.member);
    if (why)
      return lender.lives()
                 ? error{error_kind::unknown, "could not read the memory of local member " +
                                                  std::to_string(what.member) + ": " + std::strerror(why)}
                 : gone(what.member);
    done += next;
  }
  return what.bytes == 0 || lender.lives() ? error{} : gone(what.member);
}

// The word changes before its owner gives the memory back; who has read looks at the word afterwards.
void board::withdraw(const board_cell& cell, std::uint64_t round) {
  mark_of(cell, rank_, round, board_stage::shown).withdraw(make_word(cell.id_, round, cell_state::retracted));
}

} // namespace farandole
