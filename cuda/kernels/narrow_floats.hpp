// Conversions of the floats of 16 bits, with the rounding of IEEE 754 (to the nearest value, ties to even, in
// one step; subnormals are kept, values that are too large become infinite). The instructions of GPUs and of
// processors for them treat NaN differently, so this code uses none of them.
#pragma once

#include <cstdint>

#include "cuda/kernels/device_code.hpp"

namespace farandole::kernels {

FARANDOLE_HOST_DEVICE inline float float_of(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
FARANDOLE_HOST_DEVICE inline std::uint32_t bits_of(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}
FARANDOLE_HOST_DEVICE inline std::uint64_t bits_of(double value) {
  return __builtin_bit_cast(std::uint64_t, value);
}

/// The float with the same fields has an exponent that is too small by 112, also for subnormals.
FARANDOLE_HOST_DEVICE inline float widened_float16(std::uint16_t half) {
  const std::uint32_t magnitude = half & 0x7fffU;
  const std::uint32_t finite = bits_of(float_of(magnitude << 13) * 0x1p112F);
  const std::uint32_t bits = magnitude >= 0x7c00U ? magnitude << 13 | 0x7f800000U : finite;
  return float_of(bits | (half & 0x8000U) << 16);
}

FARANDOLE_HOST_DEVICE inline float widened_bfloat16(std::uint16_t brain) {
  return float_of(static_cast<std::uint32_t>(brain) << 16);
}

/// Drops the last bits of a number, and rounds it. `bits` is at least 1.
template <class Bits>
FARANDOLE_HOST_DEVICE inline Bits rounded_shift(Bits number, int bits) {
  const Bits below_half = (Bits{1} << (bits - 1)) - 1;
  return (number + below_half + (number >> bits & 1)) >> bits;
}

/// A float or double, given by its bits, as a float of 16 bits of which `Mantissa` are the mantissa.
template <int Mantissa, class Bits>
FARANDOLE_HOST_DEVICE inline std::uint16_t narrowed(Bits bits) {
  constexpr int width = 8 * sizeof(Bits);
  constexpr int source_mantissa = width == 64 ? 52 : 23;
  constexpr int source_bias = width == 64 ? 1023 : 127;
  constexpr int bias = (1 << (14 - Mantissa)) - 1;
  constexpr std::uint16_t infinity = (2 * bias + 1) << Mantissa;
  constexpr std::uint16_t quiet_bit = 1 << (Mantissa - 1);
  const Bits magnitude = bits & (~Bits{0} >> 1);
  const auto sign = static_cast<std::uint16_t>(bits >> (width - 16) & 0x8000U);
  if (magnitude > Bits{2 * source_bias + 1} << source_mantissa)
    return sign | infinity | quiet_bit;
  const int source_exponent = static_cast<int>(magnitude >> source_mantissa);
  const Bits fraction = magnitude & ((Bits{1} << source_mantissa) - 1);
  const Bits significand = source_exponent == 0 ? fraction : fraction | Bits{1} << source_mantissa;
  const int exponent = (source_exponent == 0 ? 1 : source_exponent) - source_bias + bias;
  if (exponent > 2 * bias)
    return sign | infinity;
  // A carry out of the mantissa continues in the exponent, up to infinity.
  constexpr int shift = source_mantissa - Mantissa;
  if (exponent > 0)
    return static_cast<std::uint16_t>(sign | ((static_cast<std::uint32_t>(exponent - 1) << Mantissa) +
                                              static_cast<std::uint32_t>(rounded_shift(significand, shift))));
  // A subnormal. From a certain shift on, all of them are rounded to zero.
  const int farther = shift + 1 - exponent;
  const int farthest = source_mantissa + 2;
  return static_cast<std::uint16_t>(sign |
                                    rounded_shift(significand, farther < farthest ? farther : farthest));
}

/// As above, without branches: it runs for each element of most trainings.
FARANDOLE_HOST_DEVICE inline std::uint16_t rounded_float16(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  // Beside 0.5, the last bit of a float's mantissa is that of a subnormal.
  const std::uint32_t subnormal = bits_of(float_of(magnitude) + 0.5F) - bits_of(0.5F);
  const std::uint32_t normal = (magnitude - (112U << 23) + 0xfffU + (magnitude >> 13 & 1U)) >> 13;
  const std::uint32_t special = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
  const std::uint32_t half = magnitude >= bits_of(0x1p16F)   ? special
                             : magnitude < bits_of(0x1p-14F) ? subnormal
                                                             : normal;
  return static_cast<std::uint16_t>(half | (bits >> 16 & 0x8000U));
}
FARANDOLE_HOST_DEVICE inline std::uint16_t rounded_float16(double value) {
  return narrowed<10>(bits_of(value));
}

/// `value` is no NaN but the quiet one.
FARANDOLE_HOST_DEVICE inline std::uint16_t rounded_bfloat16(float value) {
  return static_cast<std::uint16_t>(rounded_shift(bits_of(value), 16));
}
FARANDOLE_HOST_DEVICE inline std::uint16_t rounded_bfloat16(double value) {
  return narrowed<7>(bits_of(value));
}

} // namespace farandole::kernels
