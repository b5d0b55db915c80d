// A tensor may be scaled by a GPU or by the host, whichever moves it: the bits have to be the same.
#include <catch2/catch.hpp>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "collectives/math/reduce.hpp"
#include "cuda/kernels/element_math.hpp"

using namespace farandole;
using namespace farandole::kernels;

namespace {

constexpr double scales[] = {2.0, 0.5, 1.0 / 3, -1.7, 0.0, 1e-6, 1e5, 1e-42, 1e300, HUGE_VAL, 1 + 1e-12};

/// Values at the borders of each type, and random bits.
template <class T>
std::vector<T> elements_of(std::mt19937_64& random) {
  std::vector<T> result;
  using limits = std::numeric_limits<T>;
  for (const T value : {T(0), T(1), static_cast<T>(-1), limits::min(), limits::max(), limits::lowest(),
                        limits::epsilon(), limits::denorm_min(), limits::infinity(), limits::quiet_NaN()}) {
    result.push_back(value);
    if constexpr (limits::is_iec559)
      result.push_back(-value);
  }
  constexpr std::size_t count = 200000;
  while (result.size() < count) {
    const auto bits = random();
    std::memcpy(&result.emplace_back(), &bits, sizeof(T));
  }
  return result;
}

/// All of them.
template <>
std::vector<std::uint16_t> elements_of(std::mt19937_64&) {
  std::vector<std::uint16_t> result;
  for (unsigned bits = 0; bits < 0x10000; ++bits)
    result.push_back(static_cast<std::uint16_t>(bits));
  return result;
}

template <class T>
std::vector<T> scaled_by_host(dtype type, const std::vector<T>& elements, double scale) {
  std::vector<T> result(elements.size());
  const auto* input = reinterpret_cast<const std::byte*>(elements.data());
  reduce(type, reduce_op::sum, reinterpret_cast<std::byte*>(result.data()), {&input, 1}, elements.size(),
         scale, 1.0, 1);
  return result;
}

template <class Operation>
void compare(dtype type) {
  using element = typename Operation::source;
  INFO(to_string(type));
  std::mt19937_64 random(static_cast<unsigned>(type));
  const auto elements = elements_of<element>(random);
  for (const double scale : scales) {
    INFO("scale " << scale);
    const auto expected = scaled_by_host(type, elements, scale);
    std::vector<element> result;
    for (const element value : elements)
      result.push_back(Operation(scale)(value));
    CHECK(std::memcmp(result.data(), expected.data(), result.size() * sizeof(element)) == 0);
  }
}

} // namespace

TEST_CASE("kernels scale integers to the bits of the host") {
  compare<scaled_integer<std::uint8_t>>(dtype::uint8);
  compare<scaled_integer<std::int8_t>>(dtype::int8);
  compare<scaled_integer<std::uint16_t>>(dtype::uint16);
  compare<scaled_integer<std::int16_t>>(dtype::int16);
  compare<scaled_integer<std::int32_t>>(dtype::int32);
  compare<scaled_integer<std::int64_t>>(dtype::int64);
}

TEST_CASE("kernels scale floats to the bits of the host") {
  compare<scaled_float<float16_format, float16_format>>(dtype::float16);
  compare<scaled_float<bfloat16_format, bfloat16_format>>(dtype::bfloat16);
  compare<scaled_float<float32_format, float32_format>>(dtype::float32);
  compare<scaled_float<float64_format, float64_format>>(dtype::float64);
}
