// The arithmetic of elements on the host, against code that is as plain as possible. tests/device_math
// compares it with the reductions of the host.
#include "cuda/kernels/element_math.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <vector>

using namespace farandole::kernels;

namespace {

/// A binary floating-point format of 16 bits.
struct format {
  int mantissa;
  int least_exponent; ///< of a normal number
  int most_exponent;
};
constexpr format half{10, -14, 15}, brain{7, -126, 127};

double value_of(std::uint16_t bits, const format& type) {
  const int fraction = bits & ((1 << type.mantissa) - 1);
  const int exponent = (bits & 0x7fff) >> type.mantissa;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == type.most_exponent * 2 + 1)
    return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0)
    return sign * std::ldexp(fraction, type.least_exponent - type.mantissa);
  return sign *
         std::ldexp(fraction + (1 << type.mantissa), exponent - 1 + type.least_exponent - type.mantissa);
}

/// The nearest value of the format. All steps but nearbyint() are exact.
double rounded(double value, const format& type) {
  if (value == 0 || !std::isfinite(value))
    return value;
  const int unit = std::max(std::ilogb(value), type.least_exponent) - type.mantissa;
  const double result = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::abs(result) >= std::ldexp(1, type.most_exponent + 1) ? std::copysign(HUGE_VAL, value) : result;
}

bool same(double left, double right) {
  return (std::isnan(left) && std::isnan(right)) ||
         (left == right && std::signbit(left) == std::signbit(right));
}

/// Every value of the format, the middle to the next value, and the neighbours of both among the numbers of
/// type T.
template <class T>
std::vector<T> critical_values(const format& type) {
  std::vector<T> result;
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto value = value_of(static_cast<std::uint16_t>(bits), type);
    const auto next = value_of(static_cast<std::uint16_t>(bits + 1), type);
    const auto beyond = std::copysign(std::ldexp(1, type.most_exponent + 1), value);
    for (const double number : {value, (value + (std::isinf(next) ? beyond : next)) / 2}) {
      const auto exact = static_cast<T>(number);
      for (const T candidate : {exact, std::nextafter(exact, static_cast<T>(-HUGE_VAL)),
                                std::nextafter(exact, static_cast<T>(HUGE_VAL))})
        result.push_back(candidate);
    }
  }
  using limits = std::numeric_limits<T>;
  for (const T value : {limits::denorm_min(), limits::min(), limits::max(), limits::infinity(), T(0)}) {
    result.push_back(value);
    result.push_back(-value);
  }
  return result;
}

template <class T, class Conversion>
void check_rounding(const format& type, Conversion conversion) {
  std::size_t wrong = 0;
  T last = 0;
  for (const T value : critical_values<T>(type)) {
    if (std::isnan(value) || same(value_of(conversion(value), type), rounded(value, type)))
      continue;
    ++wrong;
    last = value;
  }
  INFO("such as " << last);
  CHECK(wrong == 0);
}

template <class T>
T scaled(T element, double scale) {
  return scaled_integer<T>(scale)(element);
}

template <class From, class To>
typename To::storage converted(typename From::storage element, double scale) {
  return scaled_float<From, To>(scale)(element);
}

constexpr double infinity = std::numeric_limits<double>::infinity();

} // namespace

TEST_CASE("all floats of 16 bits are widened to their value") {
  std::size_t wrong = 0;
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto element = static_cast<std::uint16_t>(bits);
    wrong += !same(widened_float16(element), value_of(element, half));
    wrong += !same(widened_bfloat16(element), value_of(element, brain));
  }
  CHECK(wrong == 0);
}

TEST_CASE("floats are rounded to 16 bits in one step, to the nearest, ties to even") {
  check_rounding<float>(half, [](float value) { return rounded_float16(value); });
  check_rounding<float>(brain, [](float value) { return rounded_bfloat16(value); });
  check_rounding<double>(half, [](double value) { return rounded_float16(value); });
  check_rounding<double>(brain, [](double value) { return rounded_bfloat16(value); });
  // In two steps, by way of float, this would be a tie, and become 1.
  CHECK(rounded_float16(1.0 + 0x1p-11 + 0x1p-40) == 0x3c01);
  CHECK(rounded_bfloat16(1.0 + 0x1p-8 + 0x1p-40) == 0x3f81);
}

TEST_CASE("every NaN becomes the quiet one, of whatever type") {
  for (const auto bits : {0x7f800001U, 0xff800001U, 0x7fc00000U, 0xffffffffU}) {
    const auto nan = float_of(bits);
    CHECK(bits_of(converted<float32_format, float32_format>(nan, 2.0)) == 0x7fc00000U);
    CHECK(bits_of(converted<float32_format, float64_format>(nan, 1.0)) == 0x7ff8000000000000U);
    CHECK(converted<float32_format, float16_format>(nan, 1.0) == 0x7e00);
    CHECK(converted<float32_format, bfloat16_format>(nan, 1.0) == 0x7fc0);
  }
  for (const std::uint16_t bits : {0x7c01, 0xfc01, 0x7fff, 0xffff}) {
    CHECK(converted<float16_format, float16_format>(bits, 2.0) == 0x7e00);
    CHECK(bits_of(converted<float16_format, float32_format>(bits, 1.0)) == 0x7fc00000U);
  }
  CHECK(converted<float64_format, float16_format>(-std::nan(""), 1.0) == 0x7e00);
  CHECK(converted<float64_format, bfloat16_format>(-std::nan(""), 1.0) == 0x7fc0);
  CHECK(bits_of(converted<float64_format, float64_format>(infinity, 0.0)) == 0x7ff8000000000000U);
}

TEST_CASE("floats are multiplied in float, and in double if either type is float64") {
  CHECK(converted<float32_format, float32_format>(3.0F, 0.1) == 3.0F * 0.1F);
  CHECK(converted<float32_format, float64_format>(3.0F, 0.1) == 3.0 * 0.1);
  CHECK(converted<float64_format, float32_format>(3.0, 0.1) == static_cast<float>(3.0 * 0.1));
  CHECK(converted<float64_format, float64_format>(3.0, 0.1) == 3.0 * 0.1);
  CHECK(converted<float32_format, float32_format>(3e38F, 2.0) == HUGE_VALF);
  CHECK(converted<float32_format, float32_format>(0x1p-149F, 0.5) == 0.0F);
  CHECK(bits_of(converted<float32_format, float32_format>(-0x1p-149F, 0.25)) == 0x80000000U);
  CHECK(converted<float16_format, float16_format>(0x7bff, 2.0) == 0x7c00); // 65504 · 2
  CHECK(converted<float16_format, float16_format>(0xfbff, 2.0) == 0xfc00);
  CHECK(converted<float16_format, float16_format>(0x0001, 0.5) == 0x0000);  // a tie
  CHECK(converted<float16_format, float16_format>(0x0003, 0.5) == 0x0002);  // another one
  CHECK(converted<bfloat16_format, float16_format>(0x4780, 1.0) == 0x7c00); // 65536
  CHECK(converted<float16_format, bfloat16_format>(0x3c01, 1.0) == 0x3f80);
  CHECK(converted<float32_format, float32_format>(1.0F, 1e300) == HUGE_VALF); // the scale becomes infinite
}

TEST_CASE("integers are multiplied in double, truncated toward zero, and wrapped") {
  CHECK(scaled<std::uint8_t>(200, 2.0) == 144);
  CHECK(scaled<std::uint8_t>(200, -1.0) == 56);
  CHECK(scaled<std::uint8_t>(255, 1e300) == 255);
  CHECK(scaled<std::int8_t>(-128, -1.0) == -128);
  CHECK(scaled<std::int8_t>(7, -0.5) == -3);
  CHECK(scaled<std::uint16_t>(65535, 1.5) == 98302 - 65536);
  CHECK(scaled<std::int16_t>(-32768, 1.5) == -49152 + 65536);
  CHECK(scaled<std::int32_t>(std::numeric_limits<std::int32_t>::max(), 2.0) == -2);
  CHECK(scaled<std::int32_t>(-7, 0.5) == -3);
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  CHECK(scaled<std::int64_t>(most, 0.5) == std::int64_t{1} << 62); // rounded to double first
  CHECK(scaled<std::int64_t>(most, 1.5) == most);
  CHECK(scaled<std::int64_t>(least, 1.5) == least);
  CHECK(scaled<std::int64_t>(least, -1.0) == most);
  CHECK(scaled<std::int64_t>(5, infinity) == most);
  CHECK(scaled<std::int64_t>(-5, infinity) == least);
  CHECK(scaled<std::int64_t>(0, infinity) == 0);
  CHECK(scaled<std::int64_t>(5, std::nan("")) == 0);
}
