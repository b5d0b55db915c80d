// Conversions from float16 and bfloat16 to float and back. Rounding is to nearest, ties to even, in one step.
// Values that are too large become infinite; subnormals are kept. The only NaN that the callers round is the one
// quiet NaN. Like kernel_loops.hpp, this header is compiled once per instruction set, hence the unnamed
// namespace. The code has no branches, so that compilers vectorise the loops around it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace farandole::math {
namespace {

inline float float_of(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
inline std::uint32_t bits_of(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}

// Both float16 conversions compute all cases and then select one.
[[maybe_unused]] inline float widened_float16(std::uint32_t half) {
  std::uint32_t magnitude = (half & 0x7fffU) << 13;
  std::uint32_t normal = magnitude + (112U << 23);
  std::uint32_t infinite = magnitude + (224U << 23);
  std::uint32_t subnormal = bits_of(float_of(magnitude + (113U << 23)) - 0x1p-14F);
  std::uint32_t bits = magnitude >= (0x7c00U << 13)  ? infinite
                       : magnitude < (0x0400U << 13) ? subnormal
                                                     : normal;
  return float_of(bits | (half & 0x8000U) << 16);
}

[[maybe_unused]] inline std::uint16_t rounded_float16(float value) {
  std::uint32_t bits = bits_of(value);
  std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t special = magnitude > (255U << 23) ? 0x7e00U : 0x7c00U;
  // Adding 0.5 aligns the mantissa with the last bit of a float16 subnormal, so that the addition rounds.
  std::uint32_t subnormal = bits_of(float_of(magnitude) + 0.5F) - (126U << 23);
  std::uint32_t odd = magnitude >> 13 & 1U;
  std::uint32_t normal = (magnitude - (112U << 23) + 0xfffU + odd) >> 13;
  std::uint32_t half = magnitude >= (143U << 23) ? special : magnitude < (113U << 23) ? subnormal : normal;
  return static_cast<std::uint16_t>(half | (bits >> 16 & 0x8000U));
}

inline float widened_bfloat16(std::uint32_t brain) {
  return float_of(brain << 16);
}

inline std::uint16_t rounded_bfloat16(float value) {
  std::uint32_t bits = bits_of(value);
  return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

} // namespace
} // namespace farandole::math
