#include "collectives/transport/shm/shm_fast_path.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <string>

#include "collectives/math/reduce.hpp"
#include "collectives/operation.hpp"
#include "collectives/transport/shm/fast_path_mark.hpp"

namespace farandole {

// Two halves are enough, because:
// - a member publishes round r+2 only after it has collected r+1;
// - r+1 was ready only after every member had published it;
// - every member published r+1 only after it had collected r.
// So when a member overwrites the half of r for r+2, no member still reads r, and no member is ever more
// than one round ahead of another.
//
// The marks (fast_path_mark.hpp) do not decide whether a round succeeded: a member reads them one after the
// other while other members change them. The outcome of a round is a separate word (round_outcome.hpp) in
// the half of member 0, whose cache line every member reads anyway.

namespace {

static_assert(std::endian::native == std::endian::little, "sleepers watch the low half of a word");

} // namespace

/// A half starts with the mark, the outcome of the round and the time at which the member published. Then follow the tensor's bytes, or the
/// decision of begin_output() and the row descriptor. With a row descriptor, the mark's note holds the core
/// of the publishing thread.
struct shm_fast_path::mark : basic_fast_path_mark<machine_atomics> {
  void show(std::uint64_t next) {
    basic_fast_path_mark::show(next, [this] { wake_shared(&word); });
  }
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(std::atomic<std::uint64_t>) == 8);
};

/// The start of a half.
struct shm_fast_path::header {
  mark shown;
  round_decision decision; ///< outcome of the round; only the one in member 0's half is used
  /// When the member published, in ticks; the mark's word publishes it. For the event record.
  std::atomic<std::uint64_t> published_at;
};

shm_fast_path::shm_fast_path(std::shared_ptr<shm_segment> shared, std::uint32_t rank, futex_wait policy,
                             std::shared_ptr<const result_heaps> heaps)
    : segment_(std::move(shared)), rank_(rank), members_(segment_->layout().members), waiting_(policy),
      heaps_(std::move(heaps)), placement_(members_, rank_, usable_cores()), heap_(segment_->staging(rank_)) {
  static_assert(sizeof(header) == header_bytes);
  static_assert(footprint(collective_cell_bytes(5)) >=
                2 * descriptor_half_bytes(5) + sizeof(member_progress));
  assert(rank_ < members_);
}

expected<fast_path_cell> shm_fast_path::open(std::uint32_t id, std::int64_t offset, std::size_t cell_bytes,
                                             const fast_path_task& task) const {
  const auto wrong = [&](const std::string& reason) {
    return error{error_kind::invalid_argument, "fast path cell of id " + std::to_string(id) + ": " + reason};
  };
  const std::size_t area = segment_->layout().fast_path_bytes;
  if (row_of(task.operation).on_fast_path == fast_path_use::none || task.use == fast_path_use::none ||
      (row_of(task.operation).on_fast_path == fast_path_use::collective &&
       task.use != fast_path_use::collective) ||
      task.reduce_op == reduce_op::adasum || (row_of(task.operation).reduces && task.dtype == dtype::boolean))
    return error{error_kind::unimplemented, std::string(row_of(task.operation).name) + " of " +
                                                std::string(to_string(task.dtype)) +
                                                " has no place on the fast path"};
  if (row_of(task.operation).has_root && (task.root < 0 || static_cast<std::uint32_t>(task.root) >= members_))
    return wrong("root " + std::to_string(task.root) + " is none of " + std::to_string(members_) +
                 " members");
  const bool runs = task.use == fast_path_use::collective;
  if (runs ? task.bytes != collective_cell_bytes(members_) : task.bytes % size_of(task.dtype) != 0)
    return wrong(std::to_string(task.bytes) + " bytes are no whole number of elements");
  const auto unit = runs ? alignof(member_progress) : alignment;
  if (offset < 0 || static_cast<std::uint64_t>(offset) % unit != 0)
    return wrong("offset " + std::to_string(offset) + " is not aligned");
  if (static_cast<std::uint64_t>(offset) > area || cell_bytes > area - static_cast<std::uint64_t>(offset))
    return wrong(std::to_string(cell_bytes) + " bytes at " + std::to_string(offset) +
                 " reach beyond the fast path's " + std::to_string(area));
  // The size of the tensor is compared with the area first, so that no sum below can overflow.
  if (task.bytes > area || footprint(task.bytes) > cell_bytes)
    return wrong(std::to_string(cell_bytes) + " bytes do not hold two rounds of " +
                 std::to_string(task.bytes));
  return fast_path_cell(id, static_cast<std::size_t>(offset),
                        runs ? descriptor_half_bytes(members_) : half_bytes(task.bytes), task);
}

template <class Write>
void shm_fast_path::show_after(const fast_path_cell& cell, std::uint64_t round, const Write& write) {
  mark& own = mark_of(cell, rank_, round);
  const std::uint64_t word = make_word(cell.id_, round, cell_state::published);
  assert(own.word.load(std::memory_order_relaxed) != word && "a round is published once");
  own.hide(make_word(cell.id_, round, cell_state::empty));
  write(own);
  reinterpret_cast<header*>(half(cell, rank_, round))
      ->published_at.store(clock_.now(), std::memory_order_relaxed);
  own.show(word);
}

void shm_fast_path::publish(const fast_path_cell& cell, std::uint64_t round, const std::byte* input) {
  const auto& task = cell.task_;
  const bool brings =
      task.operation != operation::barrier &&
      (task.operation != operation::broadcast || static_cast<std::uint32_t>(task.root) == rank_);
  show_after(cell, round, [&](mark&) {
    if (brings && task.bytes > 0)
      std::memcpy(bytes_of(cell, rank_, round), input, task.bytes);
  });
}

void shm_fast_path::show(const fast_path_cell& cell, std::uint64_t round, const row_descriptor& own) {
  show_after(cell, round, [&](mark& shown) {
    write_checked(bytes_of(cell, rank_, round), own.words(), {rank_, cell.id_, round});
    shown.note.store(static_cast<std::uint32_t>(sched_getcpu()), std::memory_order_relaxed);
  });
}

bool shm_fast_path::has_come(const fast_path_cell& cell, std::uint32_t member, std::uint64_t round) const {
  return mark_of(cell, member, round).has_come(make_word(cell.id_, round, cell_state::published));
}

bool shm_fast_path::still_stands(const fast_path_cell& cell, std::uint32_t member,
                                 std::uint64_t round) const {
  return mark_of(cell, member, round).still_stands(make_word(cell.id_, round, cell_state::published));
}

bool shm_fast_path::ready(const fast_path_cell& cell, std::uint64_t round, const round_need& need) const {
  if (need.kind != round_need::event::shown)
    return counter_of(cell, need).has_reached(need.reached);
  for (std::uint32_t member = 0; member < members_; ++member)
    if (!has_come(cell, member, round))
      return false;
  return true;
}

bool shm_fast_path::damaged(const fast_path_cell& cell, std::uint64_t round) const {
  const auto own = mark_of(cell, rank_, round).word.load(std::memory_order_acquire);
  return own != make_word(cell.id_, round, cell_state::published) &&
         own != make_word(cell.id_, round, cell_state::retracted);
}

wait_end shm_fast_path::wait(const fast_path_cell& cell, std::uint64_t round,
                             const std::atomic<std::uint32_t>& descriptor, std::uint32_t observed,
                             std::chrono::steady_clock::time_point deadline, const round_need& need,
                             std::chrono::nanoseconds patience) const {
  if (need.kind == round_need::event::shown)
    return wait_shown(cell, round, descriptor, observed, deadline, patience);
  auto& counter = counter_of(cell, need);
  const watched watch{&counter.value, counter.waiters, descriptor, observed, deadline, true};
  return waiting_.until(
      watch, [&] { return counter.has_reached(need.reached); }, patience);
}

wait_end shm_fast_path::wait_shown(const fast_path_cell& cell, std::uint64_t round,
                                   const std::atomic<std::uint32_t>& descriptor, std::uint32_t observed,
                                   std::chrono::steady_clock::time_point deadline,
                                   std::chrono::nanoseconds patience) const {
  for (std::uint32_t i = 1; i < members_; ++i) {
    const std::uint32_t member = (rank_ + i) % members_;
    mark& theirs = mark_of(cell, member, round);
    const watched watch{&theirs.word, theirs.waiters, descriptor, observed, deadline, true};
    const auto end = waiting_.until(
        watch, [&] { return has_come(cell, member, round); }, patience);
    if (end != wait_end::reached)
      return end;
  }
  // All other members have published. If this member's cell is no longer published, it was retracted, and
  // the thread that retracts it also changes the local word; the caller checks that word.
  return has_come(cell, rank_, round) ? wait_end::reached : wait_end::noticed;
}

error shm_fast_path::collect(const fast_path_cell& cell, std::uint64_t round, std::byte* output) const {
  const auto& task = cell.task_;
  if (task.operation == operation::allreduce && task.bytes > 0) {
    // The pointers are on the stack, except for hosts with many members.
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
  return {error_kind::unknown, "the fast path's cell of id " + std::to_string(cell.id_) +
                                   " was overwritten in round " + std::to_string(round)};
}

std::uint64_t shm_fast_path::published_at(const fast_path_cell& cell, std::uint32_t member,
                                          std::uint64_t round) const {
  return reinterpret_cast<header*>(half(cell, member, round))->published_at.load(std::memory_order_relaxed);
}

std::vector<std::int32_t> shm_fast_path::missing(const fast_path_cell& cell, std::uint64_t round,
                                                 const round_need& need) const {
  std::vector<std::int32_t> late;
  if (need.kind != round_need::event::shown) {
    // Other members may wait for other events. The lowest rank other than the awaited one reports.
    const std::uint32_t speaker = need.member == 0 ? 1 : 0;
    if (rank_ == speaker && !ready(cell, round, need))
      late.push_back(static_cast<std::int32_t>(need.member));
    return late;
  }
  for (std::uint32_t member = 0; member < members_; ++member)
    if (!has_come(cell, member, round))
      late.push_back(static_cast<std::int32_t>(member));
  // True if all lower ranks are late and this one is not.
  const bool first =
      late.size() >= rank_ && (rank_ == 0 || late[rank_ - 1] == static_cast<std::int32_t>(rank_) - 1);
  return first && has_come(cell, rank_, round) ? late : std::vector<std::int32_t>{};
}

round_outcome shm_fast_path::begin_output(const fast_path_cell& cell, std::uint64_t round) {
  return beginning_of(cell, round).decide(cell.id_, round, round_outcome::complete);
}

round_outcome shm_fast_path::complete(const fast_path_cell& cell, std::uint64_t round) {
  return decision_of(cell, round).decide(cell.id_, round, round_outcome::complete);
}

std::optional<round_outcome> shm_fast_path::outcome(const fast_path_cell& cell, std::uint64_t round) const {
  if (cell.task_.use == fast_path_use::collective &&
      beginning_of(cell, round).decided(cell.id_, round) == round_outcome::given_up)
    return round_outcome::given_up;
  return decision_of(cell, round).decided(cell.id_, round);
}

// If this call prevents begin_output() from succeeding, no member will write outputs, and the second
// decision is not needed.
round_outcome shm_fast_path::give_up(const fast_path_cell& cell, std::uint64_t round) {
  if (cell.task_.use == fast_path_use::collective &&
      beginning_of(cell, round).decide(cell.id_, round, round_outcome::given_up) == round_outcome::given_up)
    return round_outcome::given_up;
  return decision_of(cell, round).decide(cell.id_, round, round_outcome::given_up);
}

bool shm_fast_path::retract(const fast_path_cell& cell, std::uint64_t round) {
  mark& own = mark_of(cell, rank_, round);
  const auto published = make_word(cell.id_, round, cell_state::published);
  const auto retracted = make_word(cell.id_, round, cell_state::retracted);
  const auto word = own.word.load(std::memory_order_relaxed);
  if (word == retracted)
    return true;
  if (word != published)
    return false;
  if (cell.task_.use == fast_path_use::collective) {
    if (beginning_of(cell, round).decide(cell.id_, round, round_outcome::given_up) == round_outcome::complete)
      return false;
  } else if ((ready(cell, round) ? complete(cell, round) : give_up(cell, round)) == round_outcome::complete) {
    return false;
  }
  return own.take_back(published, retracted);
}

std::byte* shm_fast_path::half(const fast_path_cell& cell, std::uint32_t member, std::uint64_t round) const {
  return segment_->fast_path(member).data() + cell.offset_ + (round & 1) * cell.half_bytes_;
}

shm_fast_path::mark& shm_fast_path::mark_of(const fast_path_cell& cell, std::uint32_t member,
                                            std::uint64_t round) const {
  return *reinterpret_cast<mark*>(half(cell, member, round));
}

round_decision& shm_fast_path::decision_of(const fast_path_cell& cell, std::uint64_t round) const {
  return reinterpret_cast<header*>(half(cell, 0, round))->decision;
}

round_decision& shm_fast_path::beginning_of(const fast_path_cell& cell, std::uint64_t round) const {
  return *reinterpret_cast<round_decision*>(half(cell, 0, round) + header_bytes);
}

std::byte* shm_fast_path::bytes_of(const fast_path_cell& cell, std::uint32_t member,
                                   std::uint64_t round) const {
  const bool runs = cell.task_.use == fast_path_use::collective;
  return half(cell, member, round) + header_bytes + (runs ? sizeof(round_decision) : 0);
}

// ---- collectives that callers run ----------------------------------------------------------------

expected<std::vector<row_descriptor>>
shm_fast_path::descriptors(const fast_path_cell& cell, std::uint64_t round, const row_descriptor& own) const {
  std::vector<row_descriptor> all(members_, row_descriptor(members_));
  for (std::uint32_t member = 0; member < members_; ++member)
    if (member == rank_)
      all[member] = own;
    else if (!read_checked(bytes_of(cell, member, round), all[member].words(), {member, cell.id_, round}))
      return error{error_kind::unknown, "the row descriptor of local member " + std::to_string(member) +
                                            " in round " + std::to_string(round) +
                                            " does not match its checksum: its memory was damaged"};
  return all;
}

member_progress& shm_fast_path::progress(const fast_path_cell& cell, std::uint32_t member) const {
  return *reinterpret_cast<member_progress*>(segment_->fast_path(member).data() + cell.offset_ +
                                             2 * cell.half_bytes_);
}

shared_counter& shm_fast_path::counter_of(const fast_path_cell& cell, const round_need& need) const {
  auto& theirs = progress(cell, need.member);
  switch (need.kind) {
  case round_need::event::packed:
    return theirs.packed;
  case round_need::event::reduced:
    return theirs.reduced;
  case round_need::event::released:
  case round_need::event::shown:
    break;
  }
  return theirs.released;
}

void shm_fast_path::spread(const fast_path_cell& cell, std::uint64_t round) const {
  std::vector<int> cores;
  for (std::uint32_t member = 0; member < members_; ++member)
    cores.push_back(static_cast<int>(mark_of(cell, member, round).note.load(std::memory_order_relaxed)));
  placement_.spread(cores);
}

} // namespace farandole
