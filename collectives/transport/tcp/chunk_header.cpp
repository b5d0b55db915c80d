#include "collectives/transport/tcp/chunk_header.hpp"

#include <algorithm>
#include <cstring>

#include "collectives/transport/tcp/chunk_cipher.hpp"

namespace farandole {

chunk_header chunk_header::of(message_phase phase, std::uint64_t sequence, std::uint64_t left) {
  return {static_cast<std::uint32_t>(std::min<std::uint64_t>(left, chunk_bytes_limit)), phase, sequence,
          left};
}

chunk_header::encoded chunk_header::encode() const {
  const std::uint32_t kind = static_cast<std::uint32_t>(phase);
  encoded made{};
  std::memcpy(made.data(), &bytes, 4);
  std::memcpy(made.data() + 4, &kind, 4);
  std::memcpy(made.data() + 8, &sequence, 8);
  std::memcpy(made.data() + 16, &left, 8);
  return made;
}

std::optional<chunk_header> chunk_header::decode(std::span<const std::byte, size> bytes) {
  chunk_header found;
  std::uint32_t kind = 0;
  std::memcpy(&found.bytes, bytes.data(), 4);
  std::memcpy(&kind, bytes.data() + 4, 4);
  std::memcpy(&found.sequence, bytes.data() + 8, 8);
  std::memcpy(&found.left, bytes.data() + 16, 8);
  if (kind < static_cast<std::uint32_t>(message_phase::goodbye) ||
      kind > static_cast<std::uint32_t>(message_phase::barrier))
    return {};
  found.phase = static_cast<message_phase>(kind);
  if (found != of(found.phase, found.sequence, found.left))
    return {};
  return found;
}

} // namespace farandole
