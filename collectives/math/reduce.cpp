#include "collectives/math/reduce.hpp"

#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "collectives/math/kernels.hpp"

namespace farandole {

namespace {

using math::combination;

combination combination_of(reduce_op op) {
  switch (op) {
  case reduce_op::average:
  case reduce_op::sum:
    return combination::sum;
  case reduce_op::min:
    return combination::min;
  case reduce_op::max:
    return combination::max;
  case reduce_op::product:
    return combination::product;
  case reduce_op::adasum:
    break;
  }
  assert(!"Adasum is not elementwise");
  return combination::sum;
}

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5;
}

const math::kernel_table& kernels() {
  static const math::kernel_table& best = *math::usable_kernels().front();
  return best;
}

} // namespace

namespace math {

void reduce_with(const kernel_table& table, dtype type, reduce_op op, std::byte* output,
                 std::span<const std::byte* const> inputs, std::size_t count, double prescale,
                 double postscale, std::size_t divisor) {
  assert(!inputs.empty() && type != dtype::boolean);
  assert(op != reduce_op::average || divisor > 0);
  auto combine = combination_of(op);
  if (count == 0)
    return;
  scales factors{prescale, postscale, op == reduce_op::average ? static_cast<double>(divisor) : 1.0};
  // Multiplying a float by the reciprocal of a power of two gives the bits of the division, in less time. A divisor that
  // is rounded itself gives no better results than a factor.
  const bool is_integer_mean = needs_all_inputs(type, op);
  const double quotient = factors.divisor / factors.after;
  if (!is_integer_mean && (quotient != std::trunc(quotient) || is_power_of_two(quotient)))
    factors = {prescale, factors.after / factors.divisor, 1.0};
  const bool divides = factors.divisor != 1.0 || is_integer_mean;
  const bool scaled = factors.before != 1.0 || factors.after != 1.0;
  if (!scaled && factors.divisor == 1.0 && inputs.size() == 1) {
    if (output != inputs[0])
      std::memcpy(output, inputs[0], count * size_of(type));
    return;
  }
  const auto& row = table.rows[static_cast<std::size_t>(type)][static_cast<std::size_t>(combine)];
  auto* const kernel = divides ? row.mean : scaled ? row.scaled : row.plain;
  kernel(output, inputs.data(), inputs.size(), count, factors);
}

} // namespace math

void reduce(dtype type, reduce_op op, std::byte* output, std::span<const std::byte* const> inputs,
            std::size_t count, double prescale, double postscale, std::size_t divisor) {
  math::reduce_with(kernels(), type, op, output, inputs, count, prescale, postscale, divisor);
}

namespace {

template <class T>
void fill_with(std::byte* output, T value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(output + i * sizeof(T), &value, sizeof(T));
}

template <class T>
void fill_neutral_of(combination combine, std::byte* output, std::size_t count) {
  using limits = std::numeric_limits<T>;
  if (combine == combination::product)
    return fill_with(output, T{1}, count);
  auto largest = limits::has_infinity ? limits::infinity() : limits::max();
  auto smallest = limits::has_infinity ? -limits::infinity() : limits::lowest();
  fill_with(output, static_cast<T>(combine == combination::min ? largest : smallest), count);
}

// The last two arguments are the bit patterns of 1 and of +∞. The sign is the highest bit.
void fill_neutral_of(combination combine, std::byte* output, std::size_t count, std::uint16_t bits_of_one,
                     std::uint16_t infinity) {
  auto negative = static_cast<std::uint16_t>(infinity | 0x8000);
  fill_with(output,
            combine == combination::product ? bits_of_one
            : combine == combination::min   ? infinity
                                            : negative,
            count);
}

} // namespace

void fill_neutral(dtype type, reduce_op op, std::byte* output, std::size_t count) {
  auto combine = op == reduce_op::adasum ? combination::sum : combination_of(op);
  if (count == 0)
    return;
  if (combine == combination::sum) {
    std::memset(output, 0, count * size_of(type));
    return;
  }
  switch (type) {
  case dtype::uint8:
    return fill_neutral_of<std::uint8_t>(combine, output, count);
  case dtype::int8:
    return fill_neutral_of<std::int8_t>(combine, output, count);
  case dtype::uint16:
    return fill_neutral_of<std::uint16_t>(combine, output, count);
  case dtype::int16:
    return fill_neutral_of<std::int16_t>(combine, output, count);
  case dtype::int32:
    return fill_neutral_of<std::int32_t>(combine, output, count);
  case dtype::int64:
    return fill_neutral_of<std::int64_t>(combine, output, count);
  case dtype::float16:
    return fill_neutral_of(combine, output, count, 0x3c00, 0x7c00);
  case dtype::bfloat16:
    return fill_neutral_of(combine, output, count, 0x3f80, 0x7f80);
  case dtype::float32:
    return fill_neutral_of<float>(combine, output, count);
  case dtype::float64:
    return fill_neutral_of<double>(combine, output, count);
  case dtype::boolean:
    break;
  }
  assert(!"bool cannot be reduced");
}

std::string_view reduction_kernel() {
  return kernels().name;
}

} // namespace farandole
