#include "collectives/transport/p2p/row_exchange.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "collectives/transport/bundle_bytes.hpp"

namespace farandole {
namespace {

/// Bytes that one member sends to, or receives from, all others in one piece.
constexpr std::size_t rows_bytes = std::size_t{1} << 20;
constexpr std::size_t least_row_bytes = std::size_t{8} << 10;

/// The size of a piece of one row. A multiple of 64 bytes, so elements are not split.
std::size_t piece_of_row(std::int32_t members) {
  const auto others = static_cast<std::size_t>(std::max(1, members - 1));
  return std::max(least_row_bytes, rows_bytes / others) / 64 * 64;
}

std::size_t pieces_of(std::span<const tensor_stream> rows, std::size_t piece_bytes) {
  std::size_t longest = 0;
  for (const tensor_stream& row : rows)
    longest = std::max(longest, row.bytes());
  return (longest + piece_bytes - 1) / piece_bytes;
}

std::size_t length_of(const tensor_stream& row, std::size_t number, std::size_t piece_bytes) {
  const std::size_t from = number * piece_bytes;
  return from >= row.bytes() ? 0 : std::min(piece_bytes, row.bytes() - from);
}

/// A piece of a row: in the caller's memory if it is contiguous there, otherwise packed into the memory of
/// `spare`.
template <class Spare>
const std::byte* found_or_packed(const tensor_stream& row, std::size_t from, std::size_t bytes,
                                 const Spare& spare) {
  if (const std::byte* direct = row.memory_of(from, bytes))
    return direct;
  std::byte* packed = spare();
  pack(row, from, bytes, packed,
       [](std::byte*, std::size_t) { assert(!"rows have memory: no member has joined"); });
  return packed;
}

} // namespace

std::vector<tensor_stream> row_exchange::by_member(side end, std::span<const std::size_t> sizes) const {
  const auto count = static_cast<std::size_t>(run_.members);
  assert(sizes.size() == run_.bundle.parts.size() * count);
  std::vector<tensor_stream> rows(count);
  for (std::size_t at = 0; at < run_.bundle.parts.size(); ++at) {
    const std::byte* memory = end == side::input ? run_.bundle.parts[at].input : run_.bundle.parts[at].output;
    for (std::size_t member = 0; member < count; ++member) {
      const std::size_t bytes = sizes[at * count + member];
      rows[member].append(bytes, memory);
      memory += bytes;
    }
  }
  return rows;
}

error row_exchange::pipelined(std::size_t pieces, const begin_piece& begin, const finish_piece& finish) {
  for (std::size_t step = 0; step < pieces + 2; ++step) {
    if (step < pieces) {
      if (error problem = run_.before(step))
        return problem;
      begin(step);
    }
    if (step >= 2) {
      if (error problem = finish(step - 2))
        return problem;
      if (error problem = run_.after(step - 2))
        return problem;
    }
  }
  return {};
}

// ---- allgather and alltoall ----------------------------------------------------------------------

error row_exchange::allgather() {
  const auto rank = static_cast<std::size_t>(run_.rank);
  const auto count = static_cast<std::size_t>(run_.members);
  const std::vector<tensor_stream> rows = by_member(side::output, run_.bundle.gathered);
  // Rows are sent from the output. If input and output are the same memory, the place of the input belongs to
  // another member's row, so the whole input is moved first. Otherwise it is copied piece by piece: the other
  // members wait for no more than a piece.
  tensor_stream own;
  for (std::size_t at = 0; at < run_.bundle.parts.size(); ++at) {
    const part& part = run_.bundle.parts[at];
    const std::size_t bytes = run_.bundle.gathered[at * count + rank];
    std::byte* const place = part.output + start_of(run_.bundle.gathered, at, rank, count);
    const bool in_place = part.input == part.output;
    if (in_place && part.input != place && bytes != 0)
      std::memmove(place, part.input, bytes);
    own.append(bytes, in_place ? place : part.input);
  }
  const std::size_t piece_bytes = run_.callbacks ? run_.callbacks->piece_bytes : piece_of_row(run_.members);
  return pipelined(
      run_.callbacks ? run_.callbacks->pieces : pieces_of(rows, piece_bytes),
      [&](std::size_t number) {
        run_.enter(message_phase::gather, number);
        copy_own_row(number, own, run_.bundle.gathered, piece_bytes);
        receive_rows(number, rows, piece_bytes);
        send_row(number, rows[rank], piece_bytes);
      },
      [&](std::size_t number) { return finish_rows(number, rows, piece_bytes); });
}

error row_exchange::alltoall() {
  const auto rank = static_cast<std::size_t>(run_.rank);
  const std::vector<tensor_stream> sent = by_member(side::input, run_.bundle.sent);
  const std::vector<tensor_stream> received = by_member(side::output, run_.bundle.received);
  const std::size_t piece_bytes = piece_of_row(run_.members);
  // The number of pieces may differ between members: each pair of members derives its own from the row
  // between them.
  return pipelined(
      std::max(pieces_of(sent, piece_bytes), pieces_of(received, piece_bytes)),
      [&](std::size_t number) {
        run_.enter(message_phase::gather, number);
        receive_rows(number, received, piece_bytes);
        send_segments(message_phase::gather, number, sent, piece_bytes);
        copy_own_row(number, sent[rank], run_.bundle.received, piece_bytes);
      },
      [&](std::size_t number) { return finish_rows(number, received, piece_bytes); });
}

void row_exchange::copy_own_row(std::size_t number, const tensor_stream& row,
                                std::span<const std::size_t> sizes, std::size_t piece_bytes) const {
  const auto rank = static_cast<std::size_t>(run_.rank);
  const auto count = static_cast<std::size_t>(run_.members);
  row.for_each(std::min(number * piece_bytes, row.bytes()), length_of(row, number, piece_bytes),
               [&](const tensor_stream::piece& piece) {
                 std::byte* const target = run_.bundle.parts[piece.part].output +
                                           start_of(sizes, piece.part, rank, count) + piece.offset;
                 if (target != piece.memory)
                   std::memcpy(target, piece.memory, piece.bytes);
               });
}

/// Receives a piece directly into the output if it lies inside one part.
void row_exchange::receive_rows(std::size_t number, std::span<const tensor_stream> rows,
                                std::size_t piece_bytes) {
  slot& in = run_.staging.of(number);
  const std::size_t from = number * piece_bytes;
  for (std::int32_t member = 0; member < run_.members; ++member) {
    const tensor_stream& row = rows[static_cast<std::size_t>(member)];
    const std::size_t bytes = length_of(row, number, piece_bytes);
    if (member == run_.rank || bytes == 0)
      continue;
    const std::byte* direct = row.memory_of(from, bytes);
    std::byte* target =
        direct != nullptr
            ? writable(direct)
            : message_staging::reserve(in.incoming, piece_bytes * static_cast<std::size_t>(run_.members)) +
                  piece_bytes * static_cast<std::size_t>(member);
    run_.transport.receive(member, message_phase::gather, {target, bytes}, in.receives);
  }
}

void row_exchange::send_row(std::size_t number, const tensor_stream& row, std::size_t piece_bytes) {
  slot& in = run_.staging.of(number);
  const std::size_t bytes = length_of(row, number, piece_bytes);
  if (bytes == 0)
    return;
  const std::byte* source = found_or_packed(
      row, number * piece_bytes, bytes, [&] { return message_staging::reserve(in.outgoing, piece_bytes); });
  for (std::int32_t step = 1; step < run_.members; ++step)
    run_.transport.send(run_.next(step), message_phase::gather, {source, bytes}, in.sends);
}

void row_exchange::send_segments(message_phase phase, std::size_t number,
                                 std::span<const tensor_stream> segments, std::size_t piece_bytes) {
  slot& in = run_.staging.of(number);
  for (std::int32_t step = 1; step < run_.members; ++step) {
    const auto target = static_cast<std::size_t>(run_.next(step));
    const std::size_t bytes = length_of(segments[target], number, piece_bytes);
    if (bytes == 0)
      continue;
    const std::byte* source = found_or_packed(segments[target], number * piece_bytes, bytes, [&] {
      return message_staging::reserve(in.outgoing, piece_bytes * static_cast<std::size_t>(run_.members)) +
             piece_bytes * target;
    });
    run_.transport.send(run_.next(step), phase, {source, bytes}, in.sends);
  }
}

error row_exchange::finish_rows(std::size_t number, std::span<const tensor_stream> rows,
                                std::size_t piece_bytes) {
  slot& in = run_.staging.of(number);
  if (error problem = run_.transport.wait(in.receives, run_.deadline))
    return problem;
  if (error problem = run_.transport.wait(in.sends, run_.deadline))
    return problem;
  const std::size_t from = number * piece_bytes;
  for (std::int32_t member = 0; member < run_.members; ++member) {
    const tensor_stream& row = rows[static_cast<std::size_t>(member)];
    const std::size_t bytes = length_of(row, number, piece_bytes);
    if (member != run_.rank && bytes != 0 && row.memory_of(from, bytes) == nullptr)
      unpack(in.incoming.data() + piece_bytes * static_cast<std::size_t>(member), row, from, bytes);
  }
  return {};
}

// ---- reducescatter -------------------------------------------------------------------------------

/// The first half of an allreduce, with the segments that the bundle specifies.
error row_exchange::reducescatter() {
  const auto rank = static_cast<std::size_t>(run_.rank);
  const std::vector<tensor_stream> segments = by_member(side::input, run_.bundle.sent);
  tensor_stream result;
  for (std::size_t at = 0; at < run_.bundle.parts.size(); ++at)
    result.append(run_.bundle.sent[at * static_cast<std::size_t>(run_.members) + rank],
                  run_.bundle.parts[at].output);
  const std::size_t piece_bytes = piece_of_row(run_.members);
  return pipelined(
      pieces_of(segments, piece_bytes),
      [&](std::size_t number) {
        run_.enter(message_phase::scatter, number);
        receive_segment(number, length_of(segments[rank], number, piece_bytes));
        send_segments(message_phase::scatter, number, segments, piece_bytes);
      },
      [&](std::size_t number) { return reduce_segment(number, segments[rank], result, piece_bytes); });
}

void row_exchange::receive_segment(std::size_t number, std::size_t bytes) {
  if (bytes == 0)
    return;
  slot& in = run_.staging.of(number);
  std::byte* incoming = message_staging::reserve(in.incoming, bytes * static_cast<std::size_t>(run_.members));
  for (std::int32_t member = 0; member < run_.members; ++member)
    if (member != run_.rank)
      run_.transport.receive(member, message_phase::scatter,
                             {incoming + bytes * static_cast<std::size_t>(member), bytes}, in.receives);
}

error row_exchange::reduce_segment(std::size_t number, const tensor_stream& own, const tensor_stream& result,
                                   std::size_t piece_bytes) {
  slot& in = run_.staging.of(number);
  if (error problem = run_.transport.wait(in.receives, run_.deadline))
    return problem;
  if (error problem = run_.transport.wait(in.sends, run_.deadline))
    return problem;
  run_.enter(message_phase::gather, number);
  const std::size_t from = number * piece_bytes;
  const std::size_t bytes = length_of(own, number, piece_bytes);
  if (bytes == 0)
    return {};
  std::byte* incoming = message_staging::reserve(in.incoming, bytes * static_cast<std::size_t>(run_.members));
  std::vector<const std::byte*> inputs(static_cast<std::size_t>(run_.members));
  for (std::size_t member = 0; member < inputs.size(); ++member)
    inputs[member] = incoming + bytes * member;
  const auto rank = static_cast<std::size_t>(run_.rank);
  inputs[rank] = found_or_packed(own, from, bytes, [&] { return incoming + bytes * rank; });
  if (const std::byte* direct = result.memory_of(from, bytes)) {
    run_.reduce_into(writable(direct), inputs, bytes);
  } else {
    std::byte* results = message_staging::reserve(in.results, bytes);
    run_.reduce_into(results, inputs, bytes);
    unpack(results, result, from, bytes);
  }
  return {};
}

} // namespace farandole
