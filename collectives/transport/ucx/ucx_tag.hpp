// Every UCX message carries a 64-bit tag, and the receiver accepts only messages with the requested tag. The
// tag states the generation, set and work of a message, its phase, and its sender, so that a message of one
// work cannot be taken for a piece of another. Pieces of one phase between the same two members arrive in the
// order of sending.
#pragma once

#include <cstdint>

#include "collectives/transport/p2p/messenger.hpp"

namespace farandole {

/// Layout, from the highest bit: generation 12 bits, set 16, sequence 16, phase 4, source 16. A worker serves
/// one generation and one set, so numbers that wrap around only have to tell adjacent values apart.
struct ucx_tag {
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
  std::uint64_t sequence = 0;
  message_phase phase = message_phase::hello;
  std::int32_t source = 0; ///< rank within the set

  constexpr std::uint64_t bits() const {
    return (generation & 0xfff) << 52 | (std::uint64_t{set} & 0xffff) << 36 | (sequence & 0xffff) << 20 |
           (static_cast<std::uint64_t>(phase) & 0xf) << 16 | (static_cast<std::uint64_t>(source) & 0xffff);
  }
};

inline constexpr std::uint64_t ucx_tag_exact = ~std::uint64_t{0};
/// Any source and any work.
inline constexpr std::uint64_t ucx_tag_phase_only = std::uint64_t{0xf} << 16;

/// Any work of the generation and set.
inline constexpr std::uint64_t ucx_tag_any_work = ~(std::uint64_t{0xffff} << 20);

constexpr std::int32_t source_of(std::uint64_t tag_bits) {
  return static_cast<std::int32_t>(tag_bits & 0xffff);
}

} // namespace farandole
