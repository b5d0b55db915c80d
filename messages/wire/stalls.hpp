// The messages about stalled tensors, as plain values; stalls.capnp defines their meaning. Decoding checks all fields, as
// in membership.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/envelope.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

/// Greatest number of tensors in one message; more are only counted.
inline constexpr std::size_t most_stalled_tensors = 64;

struct stalled_tensor {
  std::string name;                   ///< truncated if it is very long
  std::chrono::nanoseconds waited{0}; ///< since the first rank submitted it
  std::vector<std::int32_t> missing;  ///< global ranks, ascending

  friend bool operator==(const stalled_tensor&, const stalled_tensor&) = default;
};

/// Each reports its own tensors.
enum class stall_source : std::uint8_t { leader, fast_path };

struct stall_notice {
  stall_source source = stall_source::leader;
  std::vector<stalled_tensor> tensors; ///< longest first, at most most_stalled_tensors
  std::uint32_t count = 0;             ///< of all; 0: the stall is over

  friend bool operator==(const stall_notice&, const stall_notice&) = default;
};

struct stall_report {
  std::string text;
  bool over = false; ///< the stall is over

  friend bool operator==(const stall_report&, const stall_report&) = default;
};

envelope encode(const address& from, const stall_notice& value);
envelope encode(const address& from, const stall_report& value);

expected<stall_notice> decode_stall_notice(const envelope& message);
expected<stall_report> decode_stall_report(const envelope& message);

} // namespace farandole
