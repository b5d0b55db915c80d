// The message by which members report that their processes make progress, as plain values; heartbeat.capnp
// defines its meaning. Decoding checks all fields, as in membership.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/envelope.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

/// A member whose process has shown no progress for some time.
struct silence {
  std::int32_t rank = 0;
  std::chrono::nanoseconds lasted{0}; ///< whole milliseconds on the wire

  friend bool operator==(const silence&, const silence&) = default;
};

struct heartbeat {
  std::vector<silence> silent; ///< without those that the receiver reported to the sender

  friend bool operator==(const heartbeat&, const heartbeat&) = default;
};

envelope encode(const address& from, const heartbeat& value);
expected<heartbeat> decode_heartbeat(const envelope& message);

} // namespace farandole
