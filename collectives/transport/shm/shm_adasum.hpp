// Adasum's exchanges between the members of one host: through their slots, one chunk at a time. All members
// go through the same steps and publish the same counters, so each member knows when its slots are free,
// regardless of which peer read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/transport/adasum.hpp"
#include "collectives/transport/shm/lane_channel.hpp"

namespace farandole {

class shm_adasum : public adasum_transport {
public:
  /// `step`: the next step of the channel; swap() advances it.
  shm_adasum(lane_channel& channel, std::uint64_t& step) : channel_(channel), step_(step) {}

  /// Exchanges bytes with one other member. All other members call it at the same time.
  error swap(adasum_phase, std::int32_t peer, std::span<const std::byte> give, std::span<std::byte> take,
             std::size_t longest) override;

private:
  wait_status show(std::span<const std::byte> bytes, std::uint64_t step);
  wait_status take_from(std::uint32_t peer, std::span<std::byte> bytes, std::uint64_t step);

  lane_channel& channel_;
  std::uint64_t& step_;
};

} // namespace farandole
