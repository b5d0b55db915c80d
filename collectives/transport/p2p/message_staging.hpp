// The memory through which an exchange moves bytes that it cannot send from, or receive into, the caller's
// memory.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "collectives/transport/adasum.hpp"
#include "collectives/transport/p2p/messenger.hpp"

namespace farandole {

/// Memory of the pieces in progress; kept from run to run.
struct message_staging {
  struct slot {
    std::vector<std::byte> outgoing; ///< packed input
    std::vector<std::byte> incoming; ///< contributions of the other members
    std::vector<std::byte> results;  ///< results to be unpacked into the outputs
    message_ticket sends;
    message_ticket receives;
    message_ticket result_sends;
    message_ticket result_receives;
  };
  static constexpr std::size_t depth = 3;
  std::array<slot, depth> slots;
  adasum_scratch adasum;
  std::size_t adasum_message_bytes; ///< maximum length of one message

  slot& of(std::size_t piece) { return slots[piece % depth]; }

  /// Grows a slot's memory to at least `bytes`.
  static std::byte* reserve(std::vector<std::byte>& memory, std::size_t bytes) {
    if (memory.size() < bytes)
      memory.resize(bytes);
    return memory.data();
  }
};

} // namespace farandole
