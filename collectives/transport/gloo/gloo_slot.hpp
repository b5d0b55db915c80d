// The Gloo slot of a message. Gloo accepts a shorter message as complete, so the length is a part of the slot
// and messages of different lengths are never matched. Both members then wait until their deadline, and find
// the difference from each other's goodbyes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/transport/p2p/messenger.hpp"

namespace farandole {

constexpr std::uint64_t gloo_slot(message_phase phase, std::size_t bytes) {
  return std::uint64_t{bytes} << 8 | static_cast<std::uint64_t>(phase);
}

} // namespace farandole
