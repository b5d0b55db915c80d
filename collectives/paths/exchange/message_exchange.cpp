#include "collectives/paths/exchange/message_exchange.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "collectives/math/reduce.hpp"

namespace farandole {
namespace {

/// A piece of an allreduce, or of a broadcast. Three are under way, and a fused bundle stages each twice, so
/// a bundle costs a few MiB.
constexpr std::size_t large_piece_bytes = std::size_t{512} << 10;
/// Below this, everybody sends everything to everybody: one message's time instead of two.
constexpr std::size_t small_bytes = std::size_t{32} << 10;

} // namespace

message_exchange::message_exchange(messenger& worker, message_staging& staging, const work& bundle,
                                   const limits& until, const probe& watch, const piece_interludes* around)
    : worker_(worker), staging_(staging), bundle_(bundle), until_(until), probe_(watch), rank_(worker.rank()),
      members_(worker.members()), element_(size_of(bundle.dtype)), around_(around),
      piece_bytes_(around ? around->piece_bytes : large_piece_bytes / element_ * element_) {
  for (const part& each : bundle.parts) {
    assert(each.input_bytes % element_ == 0);
    input_.append(each.input_bytes, each.input);
    output_.append(each.input_bytes, each.output);
  }
}

error message_exchange::run() {
  switch (bundle_.operation) {
  case operation::allreduce:
    if (bundle_.reduce_op == reduce_op::adasum)
      return adaptive_sum();
    return !around_ && input_.bytes() * static_cast<std::size_t>(members_ - 1) <= small_bytes
               ? allreduce_small()
               : allreduce();
  case operation::allgather:
    return allgather();
  case operation::broadcast:
    return broadcast();
  case operation::barrier:
    return barrier();
  case operation::alltoall:
    return alltoall();
  case operation::reducescatter:
    return reducescatter();
  case operation::join:
    break;
  }
  return {error_kind::unimplemented, "no message moves such an operation"};
}

void message_exchange::enter(message_phase phase, std::size_t piece) {
  if (probe_)
    probe_(phase, piece);
  worker_.look();
}

// ---- allreduce -----------------------------------------------------------------------------------

void message_exchange::reduce_into(std::byte* output, std::span<const std::byte* const> inputs,
                                   std::size_t bytes) const {
  if (bytes != 0)
    reduce(bundle_.dtype, bundle_.reduce_op, output, inputs, bytes / element_, bundle_.prescale,
           bundle_.postscale, static_cast<std::size_t>(members_));
}

/// This member's input of `part`, a range of the piece `whole`: in the caller's memory if it lies there in
/// one stretch, else packed into the slot.
const std::byte* message_exchange::contribution(slot& in, range whole, range part) {
  if (const std::byte* direct = input_.memory_of(part.from, part.bytes))
    return direct;
  std::byte* packed = message_staging::reserve(in.outgoing, whole.bytes) + (part.from - whole.from);
  pack(input_, part.from, part.bytes, packed, [&](std::byte* target, std::size_t bytes) {
    fill_neutral(bundle_.dtype, bundle_.reduce_op, target, bytes / element_);
  });
  return packed;
}

error message_exchange::allreduce_small() {
  slot& in = staging_.of(0);
  const range all{0, input_.bytes()};
  if (all.bytes == 0)
    return barrier();
  enter(message_phase::exchange, 0);
  std::byte* incoming = message_staging::reserve(in.incoming, all.bytes * static_cast<std::size_t>(members_));
  const std::byte* mine = contribution(in, all, all);
  std::vector<const std::byte*> inputs(static_cast<std::size_t>(members_));
  for (std::int32_t member = 0; member < members_; ++member) {
    std::byte* memory = incoming + all.bytes * static_cast<std::size_t>(member);
    inputs[static_cast<std::size_t>(member)] = member == rank_ ? mine : memory;
    if (member != rank_)
      worker_.receive(member, message_phase::exchange, {memory, all.bytes}, in.receives);
  }
  for (std::int32_t step = 1; step < members_; ++step)
    worker_.send(next(step), message_phase::exchange, {mine, all.bytes}, in.sends);
  if (error problem = worker_.wait(in.receives, until_))
    return problem;
  // The output may be the very input that is being sent.
  if (error problem = worker_.wait(in.sends, until_))
    return problem;
  enter(message_phase::gather, 0);
  if (const std::byte* direct = output_.memory_of(0, all.bytes)) {
    reduce_into(writable(direct), inputs, all.bytes);
  } else {
    std::byte* results = message_staging::reserve(in.results, all.bytes);
    reduce_into(results, inputs, all.bytes);
    unpack(results, output_, 0, all.bytes);
  }
  return {};
}

error message_exchange::allreduce() {
  const std::size_t pieces = around_ ? around_->pieces : (input_.bytes() + piece_bytes_ - 1) / piece_bytes_;
  for (std::size_t step = 0; step < pieces + 2; ++step) {
    if (step < pieces) {
      if (error problem = before(step))
        return problem;
      begin_scatter(step);
    }
    if (step >= 1 && step - 1 < pieces)
      if (error problem = reduce_and_gather(step - 1))
        return problem;
    if (step >= 2) {
      if (error problem = finish_gather(step - 2))
        return problem;
      if (error problem = after(step - 2))
        return problem;
    }
  }
  return {};
}

message_exchange::range message_exchange::piece(std::size_t number) const {
  const std::size_t from = std::min(number * piece_bytes_, input_.bytes());
  return {from, std::min(piece_bytes_, input_.bytes() - from)};
}

message_exchange::range message_exchange::segment(range whole, std::int32_t member) const {
  const std::size_t elements = whole.bytes / element_;
  const auto count = static_cast<std::size_t>(members_);
  const auto at = static_cast<std::size_t>(member);
  const std::size_t begin = elements * at / count;
  const std::size_t end = elements * (at + 1) / count;
  return {whole.from + begin * element_, (end - begin) * element_};
}

void message_exchange::begin_scatter(std::size_t number) {
  enter(message_phase::scatter, number);
  slot& in = staging_.of(number);
  const range whole = piece(number);
  const range mine = segment(whole, rank_);
  if (mine.bytes != 0) {
    std::byte* incoming =
        message_staging::reserve(in.incoming, mine.bytes * static_cast<std::size_t>(members_));
    for (std::int32_t member = 0; member < members_; ++member)
      if (member != rank_)
        worker_.receive(member, message_phase::scatter,
                        {incoming + mine.bytes * static_cast<std::size_t>(member), mine.bytes}, in.receives);
  }
  for (std::int32_t step = 1; step < members_; ++step) {
    const range theirs = segment(whole, next(step));
    if (theirs.bytes != 0)
      worker_.send(next(step), message_phase::scatter, {contribution(in, whole, theirs), theirs.bytes},
                   in.sends);
  }
}

error message_exchange::reduce_and_gather(std::size_t number) {
  slot& in = staging_.of(number);
  const range whole = piece(number);
  const range mine = segment(whole, rank_);
  if (error problem = worker_.wait(in.receives, until_))
    return problem;
  // Results come into the memory that, in place, is still being sent.
  if (error problem = worker_.wait(in.sends, until_))
    return problem;
  enter(message_phase::gather, number);
  for (std::int32_t step = 1; step < members_; ++step) {
    const std::int32_t owner = next(step);
    const range theirs = segment(whole, owner);
    if (theirs.bytes == 0)
      continue;
    const std::byte* direct = output_.memory_of(theirs.from, theirs.bytes);
    std::byte* target = direct != nullptr
                            ? writable(direct)
                            : message_staging::reserve(in.results, whole.bytes) + (theirs.from - whole.from);
    worker_.receive(owner, message_phase::gather, {target, theirs.bytes}, in.result_receives);
  }
  if (mine.bytes == 0)
    return {};
  std::vector<const std::byte*> inputs(static_cast<std::size_t>(members_));
  for (std::int32_t member = 0; member < members_; ++member)
    inputs[static_cast<std::size_t>(member)] =
        member == rank_ ? contribution(in, whole, mine)
                        : in.incoming.data() + mine.bytes * static_cast<std::size_t>(member);
  const std::byte* direct = output_.memory_of(mine.from, mine.bytes);
  std::byte* result = direct != nullptr
                          ? writable(direct)
                          : message_staging::reserve(in.results, whole.bytes) + (mine.from - whole.from);
  reduce_into(result, inputs, mine.bytes);
  for (std::int32_t step = 1; step < members_; ++step)
    worker_.send(next(step), message_phase::gather, {result, mine.bytes}, in.result_sends);
  return {};
}

error message_exchange::finish_gather(std::size_t number) {
  slot& in = staging_.of(number);
  const range whole = piece(number);
  if (error problem = worker_.wait(in.result_receives, until_))
    return problem;
  if (error problem = worker_.wait(in.result_sends, until_))
    return problem;
  for (std::int32_t member = 0; member < members_; ++member) {
    const range theirs = segment(whole, member);
    if (theirs.bytes != 0 && output_.memory_of(theirs.from, theirs.bytes) == nullptr)
      unpack(in.results.data() + (theirs.from - whole.from), output_, theirs.from, theirs.bytes);
  }
  return {};
}

// ---- broadcast and barrier -----------------------------------------------------------------------

/// Down a binomial tree, piece after piece: a piece goes on as soon as it is there. The root sends to log N
/// members instead of to all, which matters both for many members (its sends) and for many bytes (its link).
error message_exchange::broadcast() {
  assert(bundle_.root >= 0 && bundle_.root < members_);
  const std::int32_t place = (rank_ - bundle_.root + members_) % members_;
  std::int32_t lowest = 1; // the bit that separates this member from its parent; the root has none
  while (lowest < members_ && (place & lowest) == 0)
    lowest <<= 1;
  std::vector<std::int32_t> children;
  for (std::int32_t bit = lowest >> 1; bit > 0; bit >>= 1)
    if (place + bit < members_)
      children.push_back((rank_ + bit) % members_);
  const bool is_root = place == 0;
  const std::int32_t parent = is_root ? -1 : (rank_ - lowest + members_) % members_;
  if (is_root)
    for (const part& each : bundle_.parts)
      if (each.output != nullptr && each.output != each.input && each.input_bytes != 0)
        std::memcpy(each.output, each.input, each.input_bytes);

  const std::size_t pieces = (input_.bytes() + piece_bytes_ - 1) / piece_bytes_;
  std::array<const std::byte*, message_staging::depth> memory{};
  for (std::size_t step = 0; step < pieces + 2; ++step) {
    if (step < pieces) {
      enter(message_phase::tree, step);
      slot& in = staging_.of(step);
      const range whole = piece(step);
      if (is_root) {
        memory[step % message_staging::depth] = contribution(in, whole, whole);
      } else {
        const std::byte* direct = output_.memory_of(whole.from, whole.bytes);
        std::byte* target =
            direct != nullptr ? writable(direct) : message_staging::reserve(in.results, whole.bytes);
        memory[step % message_staging::depth] = target;
        worker_.receive(parent, message_phase::tree, {target, whole.bytes}, in.receives);
      }
    }
    if (step >= 1 && step - 1 < pieces) {
      slot& in = staging_.of(step - 1);
      const range whole = piece(step - 1);
      if (error problem = worker_.wait(in.receives, until_))
        return problem;
      const std::byte* source = memory[(step - 1) % message_staging::depth];
      for (std::int32_t child : children)
        worker_.send(child, message_phase::tree, {source, whole.bytes}, in.sends);
      if (!is_root && output_.memory_of(whole.from, whole.bytes) == nullptr)
        unpack(source, output_, whole.from, whole.bytes);
    }
    if (step >= 2)
      if (error problem = worker_.wait(staging_.of(step - 2).sends, until_))
        return problem;
  }
  return {};
}

/// Dissemination: in round i each tells the one 2^i places on, so after log N rounds everybody has heard of
/// everybody.
error message_exchange::barrier() {
  slot& in = staging_.of(0);
  std::size_t round = 0;
  for (std::int32_t distance = 1; distance < members_; distance *= 2, ++round) {
    enter(message_phase::barrier, round);
    // A source is heard in one round only, so rounds need no number.
    worker_.receive(next(members_ - distance), message_phase::barrier, {}, in.receives);
    worker_.send(next(distance), message_phase::barrier, {}, in.sends);
    if (error problem = worker_.wait(in.receives, until_))
      return problem;
  }
  return worker_.wait(in.sends, until_);
}

} // namespace farandole
