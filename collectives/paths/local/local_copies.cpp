// The operations of the local path that only copy: one round a chunk, from the slot of who has it to
// everybody's output.
#include <algorithm>

#include "collectives/paths/bulk_copy.hpp"
#include "collectives/paths/bundle_bytes.hpp"
#include "collectives/paths/local/local.hpp"
#include "collectives/paths/local/local_job.hpp"

namespace farandole {

bool local_path::allgather(job& now) {
  std::size_t longest = 0;
  for (const auto& stream : streams_)
    longest = std::max(longest, stream.bytes());
  now.chunks = chunks_of(longest, now.chunk_bytes);
  return one_ahead(now, &local_path::pack_gathered, &local_path::unpack_gathered);
}

/// Two phases a chunk, the first one chunk ahead: the others find chunk k+1 when they have done with k.
bool local_path::one_ahead(job& now, phase_of_chunk pack, phase_of_chunk unpack) {
  step_ += now.chunks;
  if (now.chunks > 0 && !(this->*pack)(now, 0))
    return false;
  for (std::size_t k = 0; k < now.chunks; ++k) {
    if (k + 1 < now.chunks && !(this->*pack)(now, k + 1))
      return false;
    if (!(this->*unpack)(now, k))
      return false;
  }
  return true;
}

bool local_path::pack_gathered(job& now, std::size_t chunk) {
  const std::uint64_t step = now.first + chunk;
  observe(local_phase::pack, step);
  const auto [from, bytes] = now.chunk(chunk);
  if (bytes == 0)
    return true; // nobody waits for what does not exist
  if (!await_slot(now, step))
    return false;
  std::byte* const own = own_slot(step, bytes);
  now.stream.each(from, bytes,
                  [&](const tensor_stream::piece& piece) { copy_input(now.bundle, piece, own + piece.at); });
  publish(&member_counters::packed, step + 1);
  return true;
}

bool local_path::unpack_gathered(job& now, std::size_t chunk) {
  const std::uint64_t step = now.first + chunk;
  observe(local_phase::unpack, step);
  const work& bundle = now.bundle;
  for (std::uint32_t i = 0; i < members_; ++i) {
    const std::uint32_t source = (rank_ + i) % members_;
    const auto [from, bytes] = now.chunk_of(streams_[source], chunk);
    if (bytes == 0)
      continue;
    if (source != rank_ && !await(now, source, &member_counters::packed, step + 1))
      return false;
    streams_[source].each(from, bytes,
                          [&, source, base = slot(source, step)](const tensor_stream::piece& piece) {
                            std::byte* const output = bundle.parts[piece.part].output +
                                                      start_of(bundle.gathered, piece.part, source, members_);
                            bulk_copy(output + piece.offset, base + piece.at, piece.bytes);
                          });
  }
  publish(&member_counters::released, step + 1);
  return true;
}

// ---- broadcast and barrier -----------------------------------------------------------------------

bool local_path::broadcast(job& now) {
  const work& bundle = now.bundle;
  const auto root = static_cast<std::uint32_t>(bundle.root);
  const std::size_t bytes = now.stream.bytes();
  now.chunk_bytes = std::clamp(rounded_up(bytes / 8, share_alignment),
                               std::min(least_chunk_bytes, now.chunk_bytes), now.chunk_bytes);
  now.chunks = chunks_of(bytes, now.chunk_bytes);
  step_ += now.chunks;
  for (std::size_t k = 0; k < now.chunks; ++k) {
    const std::uint64_t step = now.first + k;
    const auto [from, length] = now.chunk(k);
    if (rank_ == root) {
      observe(local_phase::pack, step);
      if (!await_slot(now, step))
        return false;
      std::byte* const own = own_slot(step, length);
      now.stream.each(from, length, [&](const tensor_stream::piece& piece) {
        copy_input(bundle, piece, own + piece.at);
        if (bundle.parts[piece.part].output != bundle.parts[piece.part].input)
          copy_output(bundle, piece, own + piece.at);
      });
      publish(&member_counters::packed, step + 1);
    } else {
      observe(local_phase::unpack, step);
      if (!await(now, root, &member_counters::packed, step + 1))
        return false;
      now.stream.each(from, length, [&, base = slot(root, step)](const tensor_stream::piece& piece) {
        copy_output(bundle, piece, base + piece.at);
      });
    }
    publish(&member_counters::released, step + 1);
  }
  return true;
}

bool local_path::barrier(job& now) {
  const std::uint64_t step = step_++;
  observe(local_phase::pack, step);
  publish(&member_counters::packed, step + 1);
  observe(local_phase::unpack, step);
  if (!await_all(now, &member_counters::packed, step + 1))
    return false;
  publish(&member_counters::released, step + 1);
  return true;
}

} // namespace farandole
