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

/// A question for the time of another member's steady clock, or the answer.
struct clock_reading {
  std::chrono::nanoseconds asked{0}; ///< when the question was sent, by the clock of the member that asks
  bool is_answer = false;
  std::chrono::nanoseconds received{
      0};                           ///< when the question arrived, by the clock of the member that answers
  std::chrono::nanoseconds sent{0}; ///< when the answer was sent, by the same clock

  friend bool operator==(const clock_reading&, const clock_reading&) = default;
};

envelope encode(const address& from, const heartbeat& value);
envelope encode(const address& from, const clock_reading& value);
expected<clock_reading> decode_clock_reading(const envelope& message);
expected<heartbeat> decode_heartbeat(const envelope& message);

} // namespace farandole
