// float16 and bfloat16, to float and back. Rounding is to nearest, ties to even, in one step; values too
// large become infinite, subnormals are kept. Like kernel_loops.hpp this is compiled once per instruction
// set, hence the unnamed namespace; the conversions that a processor does itself (F16C) give the
// same bits as those written here, NaN payloads apart, and only quiet NaNs are handed to rounding.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace farandole::math {
namespace {

using unaligned_word16 = std::uint16_t __attribute__((aligned(1), may_alias));

inline float float_of(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
inline std::uint32_t bits_of(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}

// All three cases are computed and one is chosen, so that the loop has no branch and is vectorised.
inline float widened_float16(std::uint32_t half) {
  std::uint32_t magnitude = (half & 0x7fffU) << 13;
  std::uint32_t normal = magnitude + (112U << 23);
  std::uint32_t infinite = magnitude + (224U << 23);
  std::uint32_t subnormal = bits_of(float_of(magnitude + (113U << 23)) - 0x1p-14F);
  std::uint32_t bits = magnitude >= (0x7c00U << 13)  ? infinite
                       : magnitude < (0x0400U << 13) ? subnormal
                                                     : normal;
  return float_of(bits | (half & 0x8000U) << 16);
}

inline std::uint16_t rounded_float16(float value) {
  std::uint32_t bits = bits_of(value);
  std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t special = magnitude > (255U << 23) ? 0x7e00U : 0x7c00U;
  // Adding one half lines the mantissa up with the last bit of a subnormal: the addition does the rounding.
  std::uint32_t subnormal = bits_of(float_of(magnitude) + 0.5F) - (126U << 23);
  std::uint32_t odd = magnitude >> 13 & 1U;
  std::uint32_t normal = (magnitude - (112U << 23) + 0xfffU + odd) >> 13;
  std::uint32_t half = magnitude >= (143U << 23) ? special : magnitude < (113U << 23) ? subnormal : normal;
  return static_cast<std::uint16_t>(half | (bits >> 16 & 0x8000U));
}

[[maybe_unused]] void widen_float16(float* to, const std::byte* from, std::size_t count) {
  const auto* halves = reinterpret_cast<const unaligned_word16*>(from);
  std::size_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(halves + i))));
#endif
  for (; i < count; ++i)
    to[i] = widened_float16(halves[i]);
}

[[maybe_unused]] void round_to_float16(std::byte* to, const float* from, std::size_t count) {
  auto* halves = reinterpret_cast<unaligned_word16*>(to);
  std::size_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i_u*>(halves + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  for (; i < count; ++i)
    halves[i] = rounded_float16(from[i]);
}

[[maybe_unused]] void widen_bfloat16(float* to, const std::byte* from, std::size_t count) {
  const auto* halves = reinterpret_cast<const unaligned_word16*>(from);
  for (std::size_t i = 0; i < count; ++i)
    to[i] = float_of(static_cast<std::uint32_t>(halves[i]) << 16);
}

[[maybe_unused]] void round_to_bfloat16(std::byte* to, const float* from, std::size_t count) {
  auto* halves = reinterpret_cast<unaligned_word16*>(to);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits = bits_of(from[i]);
    halves[i] = static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
  }
}

} // namespace
} // namespace farandole::math
