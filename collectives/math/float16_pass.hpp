// One pass over float16 elements, eight at a time, with the processor's conversion instructions (F16C).
// Compilers do not generate these instructions from the plain loop in kernel_loops.hpp. Both give the same bits.
#pragma once

#if defined(__F16C__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "collectives/math/kernels.hpp"

namespace farandole::math {
namespace {

template <combination C>
inline __m256 combine8(__m256 left, __m256 right) {
  if constexpr (C == combination::sum)
    return _mm256_add_ps(left, right);
  else if constexpr (C == combination::product)
    return _mm256_mul_ps(left, right);
  else {
    auto beats = C == combination::min ? _mm256_cmp_ps(right, left, _CMP_LT_OQ)
                                       : _mm256_cmp_ps(right, left, _CMP_GT_OQ);
    return _mm256_blendv_ps(left, right, _mm256_or_ps(beats, _mm256_cmp_ps(right, right, _CMP_UNORD_Q)));
  }
}

/// `Run` is a `run` of kernel_loops.hpp.
template <class Run>
class float16_pass {
public:
  static void go(void* output, const float* partial, const std::byte* const* inputs, std::size_t count,
                 scales factors) {
    const float16_pass self{factors};
    const std::byte* from[Run::inputs + 1] = {};
    for (int k = 0; k < Run::inputs; ++k)
      from[k] = inputs[k];
    constexpr std::size_t target_bytes = Run::last ? 2 : sizeof(float);
    auto* to = static_cast<std::byte*>(output);
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8)
      self.eight(to + i * target_bytes, Run::first ? nullptr : partial + i, from, i);
    if (i < count)
      self.fewer(to + i * target_bytes, Run::first ? nullptr : partial + i, from, i, count - i);
  }

private:
  explicit float16_pass(scales factors)
      : before_(_mm256_set1_ps(static_cast<float>(factors.before))),
        after_(_mm256_set1_ps(
            static_cast<float>(Run::divides ? factors.divisor / factors.after : factors.after))) {}

  __m256 take(const std::byte* from) const {
    auto wide = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(from)));
    return Run::scaled ? _mm256_mul_ps(wide, before_) : wide;
  }

  inline __attribute__((always_inline)) void eight(std::byte* to, const float* partial,
                                                   const std::byte* const* from, std::size_t start) const {
    __m256 result;
    if constexpr (Run::first)
      result = take(from[0] + 2 * start);
    else
      result = _mm256_loadu_ps(partial);
    if constexpr (!Run::first && Run::inputs > 0)
      result = combine8<Run::combine_by>(result, take(from[0] + 2 * start));
    if constexpr (Run::inputs > 1)
      result = combine8<Run::combine_by>(result, take(from[1] + 2 * start));
    if constexpr (Run::inputs > 2)
      result = combine8<Run::combine_by>(result, take(from[2] + 2 * start));
    if constexpr (Run::inputs > 3)
      result = combine8<Run::combine_by>(result, take(from[3] + 2 * start));
    if constexpr (!Run::last) {
      _mm256_storeu_ps(reinterpret_cast<float*>(to), result);
    } else {
      if constexpr (Run::divides)
        result = _mm256_div_ps(result, after_);
      else if constexpr (Run::scaled)
        result = _mm256_mul_ps(result, after_);
      auto nan = _mm256_set1_ps(__builtin_nanf(""));
      result = _mm256_blendv_ps(result, nan, _mm256_cmp_ps(result, result, _CMP_UNORD_Q));
      _mm_storeu_si128(reinterpret_cast<__m128i_u*>(to), _mm256_cvtps_ph(result, _MM_FROUND_TO_NEAREST_INT));
    }
  }

  // Processes the last elements, fewer than eight, padded with zeroes.
  void fewer(std::byte* to, const float* partial, const std::byte* const* from, std::size_t start,
             std::size_t count) const {
    std::uint16_t elements[Run::inputs + 1][8] = {};
    float results[8] = {};
    const std::byte* padded[Run::inputs + 1] = {};
    for (int k = 0; k < Run::inputs; ++k) {
      __builtin_memcpy(elements[k], from[k] + 2 * start, 2 * count);
      padded[k] = reinterpret_cast<const std::byte*>(elements[k]);
    }
    if constexpr (!Run::first)
      __builtin_memcpy(results, partial, sizeof(float) * count);
    eight(reinterpret_cast<std::byte*>(results), results, padded, 0);
    __builtin_memcpy(to, results, (Run::last ? 2 : sizeof(float)) * count);
  }

  __m256 before_;
  __m256 after_; ///< a factor, or the divisor of a mean
};

} // namespace
} // namespace farandole::math

#endif
