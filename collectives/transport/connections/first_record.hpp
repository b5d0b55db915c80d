// A TLS peer begins with one record, which holds its ClientHello. A listener peeks at the received bytes and
// creates a session only for a connection whose first record is complete. An incomplete hello costs the
// listener only the descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace farandole {

inline constexpr std::size_t record_header_bytes = 5;

/// The TLS records that a reader accepts.
struct tls_record_rules {
  std::uint8_t first_type, last_type;
  std::size_t longest; ///< content, without the header
};

/// The size in bytes, header included, of the TLS record that starts with `begin`; the size of the header if
/// `begin` is shorter than that. Empty if `begin` cannot start an accepted record.
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

/// Number of bytes that must be received before a session can accept or refuse the peer, as far as `first`
/// shows. `first` holds the first received bytes, at most record_header_bytes. If they cannot start a hello,
/// one byte is enough, because a session refuses it.
inline std::size_t first_record_bytes(std::span<const std::byte> first) {
  constexpr std::uint8_t handshake = 22;
  return tls_record_bytes(first, {handshake, handshake, 16384}).value_or(1);
}

} // namespace farandole
