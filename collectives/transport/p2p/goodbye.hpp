// The last message that a member sends to another, in phase `goodbye`: the reason why it leaves. All
// transports carry the same 24 bytes, in the byte order of the host (both ends run equal builds on equal
// processors):
//
//  offset size
//     0   8  bytes of the message that the sender waited for when it gave up
//     8   4  peer of that message, -1: it waited for none
//    12   1  phase of that message
//    13   1  1: it waited to receive the message; 0: to send it
//    14   2  zero
//    16   4  rank within the set that is to blame, -1: none, the sender leaves in order
//    20   4  mark; no byte of it is zero. In zeroed memory the goodbye is complete as soon as its last byte is
//            not zero
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "collectives/transport/p2p/messenger.hpp"

namespace farandole {

/// A message that a member waits to send or to receive.
struct awaited_message {
  std::int32_t peer = -1; ///< -1: no message
  message_phase phase = message_phase::hello;
  bool receives = false;
  std::uint64_t bytes = 0;
  friend bool operator==(const awaited_message&, const awaited_message&) = default;
};

struct goodbye {
  static constexpr std::int32_t in_order = -1;
  static constexpr std::size_t size = 24;
  using encoded = std::array<std::byte, size>;

  std::int32_t culprit = in_order; ///< rank within the set that is to blame
  awaited_message awaited;

  encoded encode() const;
  /// Empty if the bytes are not a goodbye between this number of members.
  static std::optional<goodbye> decode(std::span<const std::byte> bytes, std::int32_t members);
};

} // namespace farandole
