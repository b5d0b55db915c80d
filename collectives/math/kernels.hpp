// The reduction loops as tables of plain functions, one table for each instruction set. All tables are compiled
// from the same source (kernel_loops.hpp) and give the same bits.
#pragma once

#include <cstddef>
#include <span>

#include "messages/values/dtype.hpp"

namespace farandole::math {

/// Factors applied before and after the reduction, and the divisor of a mean, which only such kernels apply.
struct scales {
  double before = 1.0;
  double after = 1.0;
  double divisor = 1.0;
};

/// The elementwise reduce ops; an average is a sum that is divided.
enum class combination : unsigned char { sum, min, max, product };
inline constexpr std::size_t combination_count = 4;

using kernel = void (*)(std::byte* output, const std::byte* const* inputs, std::size_t members,
                        std::size_t count, scales factors);

/// `plain` ignores the scales: it is called when they are 1, with at least two inputs. `mean` exists for sums only: it
/// also divides, and adds integers in 64 bits.
struct kernel_row {
  kernel plain = nullptr;
  kernel scaled = nullptr;
  kernel mean = nullptr;
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
