// alltoall and reducescatter on the local path: one round a chunk. A slot has a cell for each destination; in
// round k every member writes into its cells piece k of what it sends to each, then reads, out of everybody's
// slot, the cell that is meant for it.
#include <algorithm>
#include <cassert>

#include "collectives/paths/bulk_copy.hpp"
#include "collectives/paths/bundle_bytes.hpp"
#include "collectives/paths/local/local.hpp"
#include "collectives/paths/local/local_job.hpp"

namespace farandole {

bool local_path::alltoall(job& now) {
  if (copy_straight(now))
    return true;
  if (now.problem)
    return false;
  // Nobody knows what the others send to each other; `longest` bounds it, so all go through as many rounds.
  const std::size_t longest = now.bundle.longest * now.bundle.parts.size();
  for (const auto& segment : received_)
    assert(segment.bytes() <= longest);
  divide_slots(now, longest);
  return one_ahead(now, &local_path::pack_segments, &local_path::unpack_segments);
}

bool local_path::reducescatter(job& now) {
  std::size_t longest = 0;
  for (const auto& segment : streams_)
    longest = std::max(longest, segment.bytes());
  divide_slots(now, longest);
  return one_ahead(now, &local_path::pack_segments, &local_path::reduce_segment);
}

void local_path::divide_slots(job& now, std::size_t longest) const {
  for (const auto& segment : streams_)
    assert(segment.bytes() <= longest);
  const std::size_t room = now.chunk_bytes / members_ / share_alignment * share_alignment;
  now.chunk_bytes = std::clamp(rounded_up(longest, share_alignment), share_alignment, room);
  now.chunks = chunks_of(longest, now.chunk_bytes);
}

std::byte* local_path::cell(const job& now, std::uint32_t source, std::uint32_t target,
                            std::uint64_t step) const {
  return slot(source, step) + target * now.chunk_bytes;
}

bool local_path::pack_segments(job& now, std::size_t chunk) {
  const std::uint64_t step = now.first + chunk;
  observe(local_phase::pack, step);
  std::size_t used = 0; // what stays here needs no cell
  for (std::uint32_t target = 0; target < members_; ++target)
    if (const auto bytes = now.chunk_of(streams_[target], chunk).bytes; target != rank_ && bytes > 0)
      used = target * now.chunk_bytes + bytes;
  if (used == 0)
    return true; // nobody waits for what does not exist
  if (!await_slot(now, step))
    return false;
  own_slot(step, used);
  for (std::uint32_t i = 1; i < members_; ++i) {
    const std::uint32_t target = (rank_ + i) % members_;
    const auto [from, bytes] = now.chunk_of(streams_[target], chunk);
    streams_[target].each(from, bytes, [&, to = cell(now, rank_, target, step)](tensor_stream::piece piece) {
      piece.offset += start_of(now.bundle.sent, piece.part, target, members_);
      copy_input(now.bundle, piece, to + piece.at);
    });
  }
  publish(&member_counters::packed, step + 1);
  return true;
}

bool local_path::unpack_segments(job& now, std::size_t chunk) {
  const std::uint64_t step = now.first + chunk;
  observe(local_phase::unpack, step);
  const work& bundle = now.bundle;
  for (std::uint32_t i = 0; i < members_; ++i) {
    const std::uint32_t source = (rank_ + i) % members_;
    const auto [from, bytes] = now.chunk_of(received_[source], chunk);
    if (bytes == 0)
      continue;
    if (source != rank_ && !await(now, source, &member_counters::packed, step + 1))
      return false;
    received_[source].each(from, bytes, [&, source](const tensor_stream::piece& piece) {
      const part& where = bundle.parts[piece.part];
      const std::byte* const found =
          source == rank_ ? where.input + start_of(bundle.sent, piece.part, rank_, members_) + piece.offset
                          : cell(now, source, rank_, step) + piece.at;
      std::byte* const to = where.output + start_of(bundle.received, piece.part, source, members_);
      bulk_copy(to + piece.offset, found, piece.bytes);
    });
  }
  publish(&member_counters::released, step + 1);
  return true;
}

bool local_path::reduce_segment(job& now, std::size_t chunk) {
  const std::uint64_t step = now.first + chunk;
  observe(local_phase::reduce, step);
  const work& bundle = now.bundle;
  const auto [from, bytes] = now.chunk(chunk);
  if (bytes > 0 && !await_all(now, &member_counters::packed, step + 1))
    return false;
  now.stream.each(from, bytes, [&](const tensor_stream::piece& piece) {
    const part& where = bundle.parts[piece.part];
    for (std::uint32_t member = 0; member < members_; ++member)
      inputs_[member] = cell(now, member, rank_, step) + piece.at;
    inputs_[rank_] = where.input + start_of(bundle.sent, piece.part, rank_, members_) + piece.offset;
    reduce_inputs(bundle, where.output + piece.offset, inputs_, piece.bytes);
  });
  publish(&member_counters::released, step + 1);
  return true;
}

} // namespace farandole
