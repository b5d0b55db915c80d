// The memory through which an exchange moves what cannot go straight from and to the caller's.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "collectives/transport/adasum.hpp"
#include "collectives/transport/p2p/messenger.hpp"

namespace farandole {

/// Memory of the pieces that are under way; kept from run to run.
struct message_staging {
  struct slot {
    std::vector<std::byte> outgoing; ///< packed input
    std::vector<std::byte> incoming; ///< contributions of the others
    std::vector<std::byte> results;  ///< what will be unpacked
    message_ticket sends;
    message_ticket receives;
    message_ticket result_sends;
    message_ticket result_receives;
  };
  static constexpr std::size_t depth = 3;
  std::array<slot, depth> slots;
  adasum_scratch adasum;
  std::size_t adasum_message_bytes; ///< longest of one message

  slot& of(std::size_t piece) { return slots[piece % depth]; }

  /// At least so many bytes of a slot's memory.
  static std::byte* reserve(std::vector<std::byte>& memory, std::size_t bytes) {
    if (memory.size() < bytes)
      memory.resize(bytes);
    return memory.data();
  }
};

} // namespace farandole
