// A peer that speaks TLS begins with one record, which holds its hello. A listener looks at what has come,
// without taking it, and makes a session only for a connection whose first record is whole: half a hello
// costs it nothing but the descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace farandole {

inline constexpr std::size_t record_header_bytes = 5;

/// What a reader takes for a record of TLS.
struct tls_record_rules {
  std::uint8_t first_type, last_type;
  std::size_t longest; ///< content, without the header
};

/// The bytes of the record that begins like this, or of its header while that is not complete. Nothing where
/// no such record begins so.
inline std::optional<std::size_t> tls_record_bytes(std::span<const std::byte> begin,
                                                   const tls_record_rules& rules) {
  const auto at = [&](std::size_t place) { return std::to_integer<std::size_t>(begin[place]); };
  constexpr std::size_t version = 3;
  if (!begin.empty() && (at(0) < rules.first_type || at(0) > rules.last_type))
    return std::nullopt;
  if (begin.size() > 1 && at(1) != version)
    return std::nullopt;
  if (begin.size() < record_header_bytes)
    return record_header_bytes;
  const std::size_t length = at(3) << 8 | at(4);
  return length > rules.longest ? std::nullopt : std::optional(record_header_bytes + length);
}

/// How many bytes must have come before a session can say yes or no, as far as `first` (what came first, up
/// to record_header_bytes of it) tells. Of what cannot be a hello, one byte is enough: a session refuses it.
inline std::size_t first_record_bytes(std::span<const std::byte> first) {
  constexpr std::uint8_t handshake = 22;
  return tls_record_bytes(first, {handshake, handshake, 16384}).value_or(1);
}

} // namespace farandole
