// A peer that speaks TLS begins with one record, which holds its hello. A listener looks at what has come,
// without taking it, and makes a session only for a connection whose first record is whole: half a hello
// costs it nothing but the descriptor.
#pragma once

#include <cstddef>
#include <span>

namespace farandole {

inline constexpr std::size_t record_header_bytes = 5;

/// How many bytes must have come before a session can say yes or no, as far as `first` (what came first, up
/// to record_header_bytes of it) tells. Of what cannot be a hello, one byte is enough: a session refuses it.
inline std::size_t first_record_bytes(std::span<const std::byte> first) {
  constexpr std::byte handshake{22};
  constexpr std::byte version{3};
  constexpr std::size_t longest = 16384;
  if ((!first.empty() && first[0] != handshake) || (first.size() > 1 && first[1] != version))
    return 1;
  if (first.size() < record_header_bytes)
    return record_header_bytes;
  const auto length = std::to_integer<std::size_t>(first[3]) << 8 | std::to_integer<std::size_t>(first[4]);
  return length > longest ? 1 : record_header_bytes + length;
}

} // namespace farandole
