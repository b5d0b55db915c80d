// What stands in the clear before each sealed chunk; the chunk's tag authenticates it. 24 bytes, in the byte
// order of the members, which all run equal builds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "collectives/transport/p2p/messenger.hpp"

namespace farandole {

struct chunk_header {
  std::uint32_t bytes = 0; ///< plaintext of this chunk
  message_phase phase = message_phase::hello;
  std::uint64_t sequence = 0; ///< of the work that the message belongs to
  std::uint64_t left = 0;     ///< bytes of the message from this chunk on, this one included

  static constexpr std::size_t size = 24;
  using encoded = std::array<std::byte, size>;

  /// Of a message's chunk when so many bytes are left of it.
  static chunk_header of(message_phase phase, std::uint64_t sequence, std::uint64_t left);
  encoded encode() const;
  /// Nothing: no member writes such a header. A sender fills all chunks of a message but the last.
  static std::optional<chunk_header> decode(std::span<const std::byte, size> bytes);

  friend bool operator==(const chunk_header&, const chunk_header&) = default;
};

} // namespace farandole
