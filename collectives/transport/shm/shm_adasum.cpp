#include "collectives/transport/shm/shm_adasum.hpp"

#include <algorithm>
#include <cstring>

#include "collectives/transport/shm/shm_collective.hpp"

namespace farandole {

/// Publishes one chunk ahead of the reads: chunk k+1 is available to the peer when it has read chunk k.
error shm_adasum::swap(adasum_phase, std::int32_t peer, std::span<const std::byte> give,
                       std::span<std::byte> take, std::size_t longest) {
  const std::size_t room = channel_.slot_bytes();
  const std::size_t chunk =
      std::clamp(rounded_up(longest / 4, share_alignment), std::min(least_chunk_bytes, room), room);
  const std::size_t chunks = chunks_of(longest, chunk);
  const std::uint64_t first = step_;
  step_ += chunks;
  const auto cut = [chunk](auto bytes, std::size_t k) {
    const std::size_t from = std::min(bytes.size(), k * chunk);
    return bytes.subspan(from, std::min(chunk, bytes.size() - from));
  };
  for (std::size_t k = 0; k < chunks + 1; ++k) {
    if (k < chunks && show(cut(give, k), first + k) != wait_status::satisfied)
      return channel_.problem();
    if (k >= 1 && take_from(static_cast<std::uint32_t>(peer), cut(take, k - 1), first + k - 1) !=
                      wait_status::satisfied)
      return channel_.problem();
  }
  return {};
}

wait_status shm_adasum::show(std::span<const std::byte> bytes, std::uint64_t step) {
  channel_.enter(local_phase::pack, step);
  if (const auto status = channel_.await_slot(step); status != wait_status::satisfied)
    return status;
  if (!bytes.empty())
    std::memcpy(channel_.own_slot(step, bytes.size()), bytes.data(), bytes.size());
  channel_.publish(&member_progress::packed, step + 1);
  return wait_status::satisfied;
}

wait_status shm_adasum::take_from(std::uint32_t peer, std::span<std::byte> bytes, std::uint64_t step) {
  channel_.enter(local_phase::unpack, step);
  if (const auto status = channel_.await(&member_progress::packed, peer, step + 1);
      status != wait_status::satisfied)
    return status;
  if (!bytes.empty())
    std::memcpy(bytes.data(), channel_.slot(peer, step), bytes.size());
  channel_.publish(&member_progress::released, step + 1);
  return wait_status::satisfied;
}

} // namespace farandole
