#include "collectives/paths/local/board.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <string>

#include "collectives/math/reduce.hpp"
#include "collectives/operation.hpp"

namespace farandole {

// Why two halves are enough. A member publishes round r+2 only after it has collected r+1; r+1 was ready only
// after every member had published it, and each did so only after it had collected r. So when the half of r
// is written again, for r+2, nobody reads r any more, and no member is ever more than one round ahead of
// another.
//
// A word says in one store whose bytes stand in a half: the id, the round and the state. It holds the id
// because the leader may grant the place of a forgotten id again: what the old one left there is then never
// taken for new.

namespace {

static_assert(std::endian::native == std::endian::little, "sleepers watch the low half of a word");

enum class cell_state : std::uint32_t { empty = 0, published = 1, retracted = 2 };

/// id in the high half; round (modulo 2^30) and state in the low half, which is what sleepers watch. The low
/// half is spread by the id, so that two ids' rounds in one place look different there as well.
constexpr std::uint64_t make_word(std::uint32_t id, std::uint64_t round, cell_state state) {
  const std::uint32_t low =
      ((static_cast<std::uint32_t>(round) + id * 0x9e3779b1u) << 2) | static_cast<std::uint32_t>(state);
  return (std::uint64_t{id} << 32) | low;
}

} // namespace

/// One of the two halves of a cell, as it stands in shared memory; the tensor's bytes follow it.
struct board::half {
  std::atomic<std::uint64_t> word;
  std::atomic<std::uint32_t> waiters;
  std::uint32_t unused;

  std::byte* bytes() { return reinterpret_cast<std::byte*>(this) + header_bytes; }
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(std::atomic<std::uint64_t>) == 8);
};

board::board(std::shared_ptr<window> shared, std::uint32_t rank, waiting policy)
    : window_(std::move(shared)), rank_(rank), members_(window_->layout().members), waiting_(policy) {
  static_assert(sizeof(half) == header_bytes);
  assert(rank_ < members_);
}

expected<board_cell> board::open(std::uint32_t id, std::int64_t offset, std::size_t cell_bytes,
                                 const board_task& task) const {
  const auto wrong = [&](const std::string& why) {
    return error{error_kind::invalid_argument, "board cell of id " + std::to_string(id) + ": " + why};
  };
  const std::size_t area = window_->layout().board_bytes;
  if (!row_of(task.operation).on_board || task.reduce_op == reduce_op::adasum ||
      (row_of(task.operation).reduces && task.dtype == dtype::boolean))
    return error{error_kind::unimplemented, std::string(row_of(task.operation).name) + " of " +
                                                std::string(to_string(task.dtype)) +
                                                " has no place on the board"};
  if (row_of(task.operation).has_root && (task.root < 0 || static_cast<std::uint32_t>(task.root) >= members_))
    return wrong("root " + std::to_string(task.root) + " is none of " + std::to_string(members_) +
                 " members");
  if (task.bytes % size_of(task.dtype) != 0)
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
  half& own = half_of(cell, rank_, round);
  const std::uint64_t word = make_word(cell.id_, round, cell_state::published);
  assert(own.word.load(std::memory_order_relaxed) != word && "a round is published once");
  // Whoever still read this half, against the rule, finds the word changed when it has read.
  own.word.store(make_word(cell.id_, round, cell_state::empty), std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  const auto& task = cell.task_;
  const bool brings =
      task.operation == operation::allreduce ||
      (task.operation == operation::broadcast && static_cast<std::uint32_t>(task.root) == rank_);
  if (brings && task.bytes > 0)
    std::memcpy(own.bytes(), input, task.bytes);
  // Store, then look for sleepers; they announce themselves, then look at the word.
  own.word.store(word, std::memory_order_seq_cst);
  if (own.waiters.load(std::memory_order_seq_cst) != 0)
    wake_shared(&own.word);
}

bool board::published(const board_cell& cell, std::uint32_t member, std::uint64_t round) const {
  return half_of(cell, member, round).word.load(std::memory_order_acquire) ==
         make_word(cell.id_, round, cell_state::published);
}

bool board::ready(const board_cell& cell, std::uint64_t round) const {
  for (std::uint32_t member = 0; member < members_; ++member)
    if (!published(cell, member, round))
      return false;
  return true;
}

wait_end board::wait(const board_cell& cell, std::uint64_t round, const std::atomic<std::uint32_t>& notice,
                     std::uint32_t seen, std::chrono::steady_clock::time_point deadline) const {
  for (std::uint32_t i = 1; i < members_; ++i) {
    const std::uint32_t member = (rank_ + i) % members_;
    half& theirs = half_of(cell, member, round);
    const watched what{&theirs.word, theirs.waiters, notice, seen, deadline, true};
    const auto end = waiting_.until(what, [&] { return published(cell, member, round); });
    if (end != wait_end::reached)
      return end;
  }
  // All others have published. If this member's own cell is not there any more it was retracted, and somebody
  // must have told so; the caller looks at its notice.
  return published(cell, rank_, round) ? wait_end::reached : wait_end::noticed;
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
      inputs[member] = half_of(cell, member, round).bytes();
    reduce(task.dtype, task.reduce_op, output, inputs, task.bytes / size_of(task.dtype), task.prescale,
           task.postscale, members_);
  } else if (task.operation == operation::broadcast && task.bytes > 0) {
    std::memcpy(output, half_of(cell, static_cast<std::uint32_t>(task.root), round).bytes(), task.bytes);
  }
  // What was read was whole if the words still stand: a writer changes its word before it touches the bytes.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (ready(cell, round))
    return {};
  return {error_kind::unknown, "the board's cell of id " + std::to_string(cell.id_) +
                                   " was overwritten in round " + std::to_string(round)};
}

std::vector<std::int32_t> board::missing(const board_cell& cell, std::uint64_t round) const {
  std::vector<std::int32_t> late;
  for (std::uint32_t member = 0; member < members_; ++member)
    if (!published(cell, member, round))
      late.push_back(static_cast<std::int32_t>(member));
  // All before this member are late, and this member is not.
  const bool first =
      late.size() >= rank_ && (rank_ == 0 || late[rank_ - 1] == static_cast<std::int32_t>(rank_) - 1);
  return first && published(cell, rank_, round) ? late : std::vector<std::int32_t>{};
}

bool board::retract(const board_cell& cell, std::uint64_t round) {
  if (ready(cell, round))
    return false;
  std::uint64_t word = make_word(cell.id_, round, cell_state::published);
  return half_of(cell, rank_, round)
      .word.compare_exchange_strong(word, make_word(cell.id_, round, cell_state::retracted),
                                    std::memory_order_seq_cst);
}

board::half& board::half_of(const board_cell& cell, std::uint32_t member, std::uint64_t round) const {
  return *reinterpret_cast<half*>(window_->board(member).data() + cell.offset_ +
                                  (round & 1) * cell.half_bytes_);
}

} // namespace farandole
