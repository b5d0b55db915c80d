// How members of one host exchange their pieces for Adasum: through their slots, chunk after chunk. All come
// through the same steps, so that each knows when its slots are free, whoever has read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/transport/adasum.hpp"
#include "collectives/transport/shm/lane_channel.hpp"

namespace farandole {

class shm_adasum : public adasum_transport {
public:
  /// `step`: the next of the channel; goes up.
  shm_adasum(lane_channel& channel, std::uint64_t& step) : channel_(channel), step_(step) {}

  /// Exchanges bytes with one other member while all others do the same.
  error swap(adasum_phase, std::int32_t peer, std::span<const std::byte> give, std::span<std::byte> take,
             std::size_t longest) override;

private:
  arrival show(std::span<const std::byte> bytes, std::uint64_t step);
  arrival take_from(std::uint32_t peer, std::span<std::byte> bytes, std::uint64_t step);

  lane_channel& channel_;
  std::uint64_t& step_;
};

} // namespace farandole
