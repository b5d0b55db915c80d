// The reduction loops as tables of plain functions, one table for each instruction set. All tables are compiled
// from the same source (kernel_loops.hpp) and give the same bits.
#pragma once

#include <cstddef>
#include <span>

#include "messages/values/dtype.hpp"

namespace farandole::math {

/// Factors applied before and after the reduction. For an average, `after` includes the division.
struct scales {
  double before = 1.0;
  double after = 1.0;
};

/// The elementwise reduce ops; an average is a scaled sum.
enum class combination : unsigned char { sum, min, max, product };
inline constexpr std::size_t combination_count = 4;

using kernel = void (*)(std::byte* output, const std::byte* const* inputs, std::size_t members,
                        std::size_t count, scales factors);

/// `plain` ignores the factors: it is called when both are 1, with at least two inputs.
struct kernel_row {
  kernel plain = nullptr;
  kernel scaled = nullptr;
};

struct kernel_table {
  const char* name;
  kernel_row rows[dtype_count][combination_count]; ///< empty for bool
};

extern const kernel_table scalar_kernels;
extern const kernel_table avx2_kernels;   ///< x86 only
extern const kernel_table avx512_kernels; ///< x86 only

/// The tables that this machine can run, best first. The last is scalar.
std::span<const kernel_table* const> usable_kernels();

/// reduce() of reduce.hpp with a table of the caller's choice.
void reduce_with(const kernel_table& table, dtype type, reduce_op op, std::byte* output,
                 std::span<const std::byte* const> inputs, std::size_t count, double prescale,
                 double postscale, std::size_t divisor);

} // namespace farandole::math
