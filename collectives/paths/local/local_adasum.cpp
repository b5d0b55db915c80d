// Adasum on the local path: members exchange their pieces through their slots, chunk after chunk. All come
// through the same steps, so that each knows when its slots are free, whoever has read them.
#include <algorithm>
#include <cstring>

#include "collectives/paths/local/local.hpp"
#include "collectives/paths/local/local_job.hpp"

namespace farandole {

class local_path::adasum_slots : public adasum_transport {
public:
  adasum_slots(local_path& path, job& now) : path_(path), now_(now) {}

  error swap(adasum_phase, std::int32_t peer, std::span<const std::byte> give, std::span<std::byte> take,
             std::size_t longest) override {
    path_.swap(now_, static_cast<std::uint32_t>(peer), give, take, longest);
    return now_.problem;
  }

private:
  local_path& path_;
  job& now_;
};

bool local_path::adaptive_sum(job& now) {
  if (now.stream.bytes() == 0)
    return true;
  adasum_slots slots(*this, now);
  now.problem = adasum(now.bundle, static_cast<std::int32_t>(rank_), static_cast<std::int32_t>(members_),
                       adasum_scratch_)
                    .run(slots);
  return !now.problem;
}

outcome local_path::carry(const work& bundle, const limits& until, const adasum_exchange& what) {
  if (broken_)
    return {broken_, nullptr};
  lay_out(bundle);
  job now{bundle, until, streams_[0], step_, slot_bytes()};
  adasum_slots slots(*this, now);
  broken_ = what(slots);
  return {broken_, nullptr};
}

/// One chunk ahead: the peer finds chunk k+1 when it has taken k.
bool local_path::swap(job& now, std::uint32_t peer, std::span<const std::byte> give,
                      std::span<std::byte> take, std::size_t longest) {
  const std::size_t room = now.chunk_bytes;
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
    if (k < chunks && !show(now, cut(give, k), first + k))
      return false;
    if (k >= 1 && !take_from(now, peer, cut(take, k - 1), first + k - 1))
      return false;
  }
  return true;
}

bool local_path::show(job& now, std::span<const std::byte> bytes, std::uint64_t step) {
  observe(local_phase::pack, step);
  if (!await_slot(now, step))
    return false;
  if (!bytes.empty())
    std::memcpy(own_slot(step, bytes.size()), bytes.data(), bytes.size());
  publish(&member_counters::packed, step + 1);
  return true;
}

bool local_path::take_from(job& now, std::uint32_t peer, std::span<std::byte> bytes, std::uint64_t step) {
  observe(local_phase::unpack, step);
  if (!await(now, peer, &member_counters::packed, step + 1))
    return false;
  if (!bytes.empty())
    std::memcpy(bytes.data(), slot(peer, step), bytes.size());
  publish(&member_counters::released, step + 1);
  return true;
}

} // namespace farandole
