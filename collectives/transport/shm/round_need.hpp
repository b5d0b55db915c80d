// The event that a member waits for in a round of the fast path: all members have published their cells, or a
// counter of one member has reached a step.
#pragma once

#include <cstdint>

namespace farandole {

struct round_need {
  enum class event : std::uint8_t { shown, packed, reduced, released };
  static constexpr std::uint32_t every_member = 0xffff;

  event kind = event::shown;
  std::uint32_t member = every_member; ///< `shown` waits for all members
  std::uint32_t reached = 0;           ///< value that the counter must reach; unused for `shown`

  friend bool operator==(const round_need&, const round_need&) = default;

  /// Packed into one word, so that a thread can read it atomically while another thread changes it.
  std::uint64_t packed_word() const {
    return std::uint64_t{reached} << 32 | std::uint64_t{member & 0xffff} << 8 |
           static_cast<std::uint8_t>(kind);
  }
  static round_need from_word(std::uint64_t word) {
    return {static_cast<event>(word & 0xff), static_cast<std::uint32_t>(word >> 8) & 0xffff,
            static_cast<std::uint32_t>(word >> 32)};
  }
};

} // namespace farandole
