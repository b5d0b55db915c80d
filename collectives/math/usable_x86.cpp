// Detects the instruction sets that both the processor and the operating system support.
#include <cpuid.h>

#include "collectives/math/kernels.hpp"

namespace farandole::math {

namespace {

bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && has_f16c();
}

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

} // namespace

std::span<const kernel_table* const> usable_kernels() {
  static constexpr const kernel_table* tables[] = {&avx512_kernels, &avx2_kernels, &scalar_kernels};
  // __builtin_cpu_supports also checks whether the operating system saves the wide registers.
  static const std::size_t first = has_avx2() ? (has_avx512() ? 0 : 1) : 2;
  return std::span{tables}.subspan(first);
}

} // namespace farandole::math
