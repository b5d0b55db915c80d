// The kernels. KERNEL(name, operation…) stands for two of them, farandole_NAME_small and
// farandole_NAME_large, which differ in the structure that they take.
#pragma once

#include "cuda/kernels/element_math.hpp"

// In the order of the numbers that pass_kernel.hpp computes.
#define FARANDOLE_KERNELS(KERNEL)                                                                            \
  KERNEL(copy_1, copied<std::uint8_t>)                                                                       \
  KERNEL(copy_2, copied<std::uint16_t>)                                                                      \
  KERNEL(copy_4, copied<std::uint32_t>)                                                                      \
  KERNEL(copy_8, copied<std::uint64_t>)                                                                      \
  KERNEL(uint8, scaled_integer<std::uint8_t>)                                                                \
  KERNEL(int8, scaled_integer<std::int8_t>)                                                                  \
  KERNEL(uint16, scaled_integer<std::uint16_t>)                                                              \
  KERNEL(int16, scaled_integer<std::int16_t>)                                                                \
  KERNEL(int32, scaled_integer<std::int32_t>)                                                                \
  KERNEL(int64, scaled_integer<std::int64_t>)                                                                \
  FARANDOLE_FLOAT_KERNELS(KERNEL, float16)                                                                   \
  FARANDOLE_FLOAT_KERNELS(KERNEL, bfloat16)                                                                  \
  FARANDOLE_FLOAT_KERNELS(KERNEL, float32)                                                                   \
  FARANDOLE_FLOAT_KERNELS(KERNEL, float64)

#define FARANDOLE_FLOAT_KERNELS(KERNEL, from)                                                                \
  FARANDOLE_FLOAT_KERNEL(KERNEL, from, float16)                                                              \
  FARANDOLE_FLOAT_KERNEL(KERNEL, from, bfloat16)                                                             \
  FARANDOLE_FLOAT_KERNEL(KERNEL, from, float32)                                                              \
  FARANDOLE_FLOAT_KERNEL(KERNEL, from, float64)

// There is a comma in the operation, so KERNEL is variadic.
#define FARANDOLE_FLOAT_KERNEL(KERNEL, from, to)                                                             \
  KERNEL(from##_to_##to, scaled_float<from##_format, to##_format>)
