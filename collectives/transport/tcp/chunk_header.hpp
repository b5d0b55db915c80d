// The unencrypted header before each sealed chunk. The tag of the chunk authenticates it. It has 24 bytes
// in host byte order: all members run the same build.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "collectives/transport/p2p/messenger.hpp"

namespace farandole {

struct chunk_header {
  std::uint32_t bytes = 0; ///< size of the plaintext of this chunk
  message_phase phase = message_phase::hello;
  std::uint64_t sequence = 0; ///< work::sequence of the message
  std::uint64_t left = 0;     ///< remaining bytes of the message, including this chunk

  static constexpr std::size_t size = 24;
  using encoded = std::array<std::byte, size>;

  /// Header of the next chunk of a message of which `left` bytes remain.
  static chunk_header of(message_phase phase, std::uint64_t sequence, std::uint64_t left);
  encoded encode() const;
  /// Returns nothing if the header is invalid. A sender fills every chunk of a message except the last.
  static std::optional<chunk_header> decode(std::span<const std::byte, size> bytes);

  friend bool operator==(const chunk_header&, const chunk_header&) = default;
};

} // namespace farandole
