// Where a message is awaited in Gloo. Gloo takes a shorter message for a whole one, so messages of different
// lengths never meet: both members wait until their deadline, and learn of it from their goodbyes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/transport/p2p/messenger.hpp"

namespace farandole {

constexpr std::uint64_t gloo_slot(message_phase phase, std::size_t bytes) {
  return std::uint64_t{bytes} << 8 | static_cast<std::uint64_t>(phase);
}

} // namespace farandole
