#include "collectives/transport/p2p/message_exchange.hpp"

#include <algorithm>
#include <cassert>

#include "collectives/math/reduce.hpp"
#include "collectives/transport/bundle_bytes.hpp"
#include "collectives/transport/p2p/row_exchange.hpp"

namespace farandole {
namespace {

/// The size of a piece of an allreduce or of a broadcast. Three pieces are in progress, and a fused bundle
/// stages each twice, so a bundle needs a few MiB of staging memory.
constexpr std::size_t large_piece_bytes = std::size_t{512} << 10;
/// Up to this size, every member sends its whole input to all others, which takes the time of one message
/// instead of two.
constexpr std::size_t small_bytes = std::size_t{32} << 10;

} // namespace

message_exchange::message_exchange(messenger& transport, message_staging& staging, const work& bundle,
                                   const deadline_and_abort& deadline, const probe& watch,
                                   const piece_callbacks* callbacks)
    : run_{transport, staging, bundle, deadline, watch, callbacks},
      piece_bytes_(callbacks ? callbacks->piece_bytes : large_piece_bytes / run_.element * run_.element) {
  for (const part& part : bundle.parts) {
    assert(part.input_bytes % run_.element == 0);
    input_.append(part.input_bytes, part.input);
    output_.append(part.input_bytes, part.output);
  }
}

error message_exchange::run() {
  switch (run_.bundle.operation) {
  case operation::allreduce:
    if (run_.bundle.reduce_op == reduce_op::adasum)
      return adaptive_sum();
    return !run_.callbacks && input_.bytes() * static_cast<std::size_t>(run_.members - 1) <= small_bytes
               ? allreduce_small()
               : allreduce();
  case operation::allgather:
    return row_exchange{run_}.allgather();
  case operation::broadcast:
    return broadcast();
  case operation::barrier:
    return barrier();
  case operation::alltoall:
    return row_exchange{run_}.alltoall();
  case operation::reducescatter:
    return row_exchange{run_}.reducescatter();
  case operation::join:
    break;
  }
  return {error_kind::unimplemented, "no message moves such an operation"};
}

// ---- allreduce -----------------------------------------------------------------------------------

/// This member's input of `part`, a range of the piece `whole`: in the caller's memory if it is contiguous
/// there, otherwise packed into the slot.
const std::byte* message_exchange::contribution(slot& in, range whole, range part) {
  if (const std::byte* direct = input_.memory_of(part.from, part.bytes))
    return direct;
  std::byte* packed = message_staging::reserve(in.outgoing, whole.bytes) + (part.from - whole.from);
  pack(input_, part.from, part.bytes, packed, [&](std::byte* target, std::size_t bytes) {
    fill_neutral(run_.bundle.dtype, run_.bundle.reduce_op, target, bytes / run_.element);
  });
  return packed;
}

error message_exchange::allreduce_small() {
  slot& in = run_.staging.of(0);
  const range all{0, input_.bytes()};
  if (all.bytes == 0)
    return barrier();
  run_.enter(message_phase::exchange, 0);
  std::byte* incoming =
      message_staging::reserve(in.incoming, all.bytes * static_cast<std::size_t>(run_.members));
  const std::byte* data = contribution(in, all, all);
  std::vector<const std::byte*> inputs(static_cast<std::size_t>(run_.members));
  for (std::int32_t member = 0; member < run_.members; ++member) {
    std::byte* memory = incoming + all.bytes * static_cast<std::size_t>(member);
    inputs[static_cast<std::size_t>(member)] = member == run_.rank ? data : memory;
    if (member != run_.rank)
      run_.transport.receive(member, message_phase::exchange, {memory, all.bytes}, in.receives);
  }
  for (std::int32_t step = 1; step < run_.members; ++step)
    run_.transport.send(run_.next(step), message_phase::exchange, {data, all.bytes}, in.sends);
  if (error problem = run_.transport.wait(in.receives, run_.deadline))
    return problem;
  // The output may be the same memory as the input that is being sent.
  if (error problem = run_.transport.wait(in.sends, run_.deadline))
    return problem;
  run_.enter(message_phase::gather, 0);
  if (const std::byte* direct = output_.memory_of(0, all.bytes)) {
    run_.reduce_into(writable(direct), inputs, all.bytes);
  } else {
    std::byte* results = message_staging::reserve(in.results, all.bytes);
    run_.reduce_into(results, inputs, all.bytes);
    unpack(results, output_, 0, all.bytes);
  }
  return {};
}

error message_exchange::allreduce() {
  const std::size_t pieces =
      run_.callbacks ? run_.callbacks->pieces : (input_.bytes() + piece_bytes_ - 1) / piece_bytes_;
  for (std::size_t step = 0; step < pieces + 2; ++step) {
    if (step < pieces) {
      if (error problem = run_.before(step))
        return problem;
      begin_scatter(step);
    }
    if (step >= 1 && step - 1 < pieces)
      if (error problem = reduce_and_gather(step - 1))
        return problem;
    if (step >= 2) {
      if (error problem = finish_gather(step - 2))
        return problem;
      if (error problem = run_.after(step - 2))
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
  const std::size_t elements = whole.bytes / run_.element;
  const auto count = static_cast<std::size_t>(run_.members);
  const auto at = static_cast<std::size_t>(member);
  const std::size_t begin = elements * at / count;
  const std::size_t end = elements * (at + 1) / count;
  return {whole.from + begin * run_.element, (end - begin) * run_.element};
}

void message_exchange::begin_scatter(std::size_t number) {
  run_.enter(message_phase::scatter, number);
  slot& in = run_.staging.of(number);
  const range whole = piece(number);
  const range own = segment(whole, run_.rank);
  if (own.bytes != 0) {
    std::byte* incoming =
        message_staging::reserve(in.incoming, own.bytes * static_cast<std::size_t>(run_.members));
    for (std::int32_t member = 0; member < run_.members; ++member)
      if (member != run_.rank)
        run_.transport.receive(member, message_phase::scatter,
                               {incoming + own.bytes * static_cast<std::size_t>(member), own.bytes},
                               in.receives);
  }
  for (std::int32_t step = 1; step < run_.members; ++step) {
    const range theirs = segment(whole, run_.next(step));
    if (theirs.bytes != 0)
      run_.transport.send(run_.next(step), message_phase::scatter,
                          {contribution(in, whole, theirs), theirs.bytes}, in.sends);
  }
}

error message_exchange::reduce_and_gather(std::size_t number) {
  slot& in = run_.staging.of(number);
  const range whole = piece(number);
  const range own = segment(whole, run_.rank);
  if (error problem = run_.transport.wait(in.receives, run_.deadline))
    return problem;
  // For an in-place bundle, results are received into the memory that is being sent.
  if (error problem = run_.transport.wait(in.sends, run_.deadline))
    return problem;
  run_.enter(message_phase::gather, number);
  for (std::int32_t step = 1; step < run_.members; ++step) {
    const std::int32_t owner = run_.next(step);
    const range theirs = segment(whole, owner);
    if (theirs.bytes == 0)
      continue;
    const std::byte* direct = output_.memory_of(theirs.from, theirs.bytes);
    std::byte* target = direct != nullptr
                            ? writable(direct)
                            : message_staging::reserve(in.results, whole.bytes) + (theirs.from - whole.from);
    run_.transport.receive(owner, message_phase::gather, {target, theirs.bytes}, in.result_receives);
  }
  if (own.bytes == 0)
    return {};
  std::vector<const std::byte*> inputs(static_cast<std::size_t>(run_.members));
  for (std::int32_t member = 0; member < run_.members; ++member)
    inputs[static_cast<std::size_t>(member)] =
        member == run_.rank ? contribution(in, whole, own)
                            : in.incoming.data() + own.bytes * static_cast<std::size_t>(member);
  const std::byte* direct = output_.memory_of(own.from, own.bytes);
  std::byte* result = direct != nullptr
                          ? writable(direct)
                          : message_staging::reserve(in.results, whole.bytes) + (own.from - whole.from);
  run_.reduce_into(result, inputs, own.bytes);
  for (std::int32_t step = 1; step < run_.members; ++step)
    run_.transport.send(run_.next(step), message_phase::gather, {result, own.bytes}, in.result_sends);
  return {};
}

error message_exchange::finish_gather(std::size_t number) {
  slot& in = run_.staging.of(number);
  const range whole = piece(number);
  if (error problem = run_.transport.wait(in.result_receives, run_.deadline))
    return problem;
  if (error problem = run_.transport.wait(in.result_sends, run_.deadline))
    return problem;
  for (std::int32_t member = 0; member < run_.members; ++member) {
    const range theirs = segment(whole, member);
    if (theirs.bytes != 0 && output_.memory_of(theirs.from, theirs.bytes) == nullptr)
      unpack(in.results.data() + (theirs.from - whole.from), output_, theirs.from, theirs.bytes);
  }
  return {};
}

// ---- broadcast and barrier -----------------------------------------------------------------------

/// Broadcasts down a binomial tree, piece by piece; a member forwards a piece as soon as it has received it.
/// The root sends to log N members instead of to all, which matters for many members (number of sends) and
/// for many bytes (bandwidth of its link).
error message_exchange::broadcast() {
  assert(run_.bundle.root >= 0 && run_.bundle.root < run_.members);
  const std::int32_t place = (run_.rank - run_.bundle.root + run_.members) % run_.members;
  std::int32_t lowest = 1; // the bit that separates this member from its parent; the root has none
  while (lowest < run_.members && (place & lowest) == 0)
    lowest <<= 1;
  std::vector<std::int32_t> children;
  for (std::int32_t bit = lowest >> 1; bit > 0; bit >>= 1)
    if (place + bit < run_.members)
      children.push_back((run_.rank + bit) % run_.members);
  const bool is_root = place == 0;
  const std::int32_t parent = is_root ? -1 : (run_.rank - lowest + run_.members) % run_.members;

  const std::size_t pieces = (input_.bytes() + piece_bytes_ - 1) / piece_bytes_;
  std::array<const std::byte*, message_staging::depth> memory{};
  for (std::size_t step = 0; step < pieces + 2; ++step) {
    if (step < pieces) {
      run_.enter(message_phase::tree, step);
      slot& in = run_.staging.of(step);
      const range whole = piece(step);
      if (is_root) {
        memory[step % message_staging::depth] = contribution(in, whole, whole);
      } else {
        const std::byte* direct = output_.memory_of(whole.from, whole.bytes);
        std::byte* target =
            direct != nullptr ? writable(direct) : message_staging::reserve(in.results, whole.bytes);
        memory[step % message_staging::depth] = target;
        run_.transport.receive(parent, message_phase::tree, {target, whole.bytes}, in.receives);
      }
    }
    if (step >= 1 && step - 1 < pieces) {
      slot& in = run_.staging.of(step - 1);
      const range whole = piece(step - 1);
      if (error problem = run_.transport.wait(in.receives, run_.deadline))
        return problem;
      const std::byte* source = memory[(step - 1) % message_staging::depth];
      for (std::int32_t child : children)
        run_.transport.send(child, message_phase::tree, {source, whole.bytes}, in.sends);
      if (is_root)
        copy_own(whole);
      else if (output_.memory_of(whole.from, whole.bytes) == nullptr)
        unpack(source, output_, whole.from, whole.bytes);
    }
    if (step >= 2)
      if (error problem = run_.transport.wait(run_.staging.of(step - 2).sends, run_.deadline))
        return problem;
  }
  return {};
}

/// Copies a range of the root's inputs to its outputs.
void message_exchange::copy_own(range whole) const {
  output_.for_each(whole.from, whole.bytes, [&](const tensor_stream::piece& piece) {
    const part& part = run_.bundle.parts[piece.part];
    if (part.output != part.input)
      copy_output(run_.bundle, piece, part.input + piece.offset);
  });
}

/// A dissemination barrier: in round i each member sends to the member 2^i places further. After log N rounds
/// every member has received a message that depends on all others.
error message_exchange::barrier() {
  slot& in = run_.staging.of(0);
  std::size_t round = 0;
  for (std::int32_t distance = 1; distance < run_.members; distance *= 2, ++round) {
    run_.enter(message_phase::barrier, round);
    // Each source sends in one round only, so the messages need no round number.
    run_.transport.receive(run_.next(run_.members - distance), message_phase::barrier, {}, in.receives);
    run_.transport.send(run_.next(distance), message_phase::barrier, {}, in.sends);
    if (error problem = run_.transport.wait(in.receives, run_.deadline))
      return problem;
  }
  return run_.transport.wait(in.sends, run_.deadline);
}

} // namespace farandole
