#include "collectives/math/adasum.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "collectives/math/reduce.hpp"

namespace {

using namespace farandole;

constexpr dtype all_types[] = {dtype::float16, dtype::bfloat16, dtype::float32, dtype::float64};

using bytes = std::vector<std::byte>;

/// Elements of 16 bits are given as their bits.
template <class T>
bytes bytes_of(const std::vector<T>& values) {
  bytes result(values.size() * sizeof(T));
  if (!values.empty())
    std::memcpy(result.data(), values.data(), result.size());
  return result;
}

template <class T>
std::vector<T> values_of(const bytes& memory) {
  std::vector<T> result(memory.size() / sizeof(T));
  if (!memory.empty())
    std::memcpy(result.data(), memory.data(), memory.size());
  return result;
}

/// The bits of one or two in each type.
bytes element_of(dtype type, bool two) {
  switch (type) {
  case dtype::float16:
    return bytes_of<std::uint16_t>({static_cast<std::uint16_t>(two ? 0x4000 : 0x3c00)});
  case dtype::bfloat16:
    return bytes_of<std::uint16_t>({static_cast<std::uint16_t>(two ? 0x4000 : 0x3f80)});
  case dtype::float32:
    return bytes_of<float>({two ? 2.0F : 1.0F});
  default:
    return bytes_of<double>({two ? 2.0 : 1.0});
  }
}

/// The Adasum of a and b.
template <class T>
std::vector<T> together(dtype type, const std::vector<T>& a, const std::vector<T>& b) {
  const bytes first = bytes_of(a), second = bytes_of(b);
  bytes output(first.size());
  combine_adaptively(type, output.data(), first.data(), second.data(), a.size(),
                     weights_of(products_of(type, first.data(), second.data(), a.size())));
  return values_of<T>(output);
}

} // namespace

TEST_CASE("adasum: equal vectors give their average, orthogonal vectors their sum") {
  using row = std::vector<double>;
  CHECK(together<double>(dtype::float64, {3, -1, 2}, {3, -1, 2}) == row{3, -1, 2});
  CHECK(together<double>(dtype::float64, {3, 0, 0}, {0, 4, -5}) == row{3, 4, -5});
  // ab = 2, aa = 4, bb = 2: the weight of a is 3/4, that of b is 1/2.
  CHECK(together<double>(dtype::float64, {2, 0}, {1, 1}) == row{2.0, 0.5});
  // Opposed vectors get weights above 1, and cancel.
  CHECK(together<double>(dtype::float64, {1, 2}, {-1, -2}) == row{0, 0});
}

TEST_CASE("adasum: a vector of norm 0 leaves the other vector unchanged") {
  const std::vector<float> zeros(11), values{1, -2, 3, 0, 1e-30F, 3e38F, 7, 8, 9, -1, 0.1F};
  CHECK(together(dtype::float32, zeros, values) == values);
  CHECK(together(dtype::float32, values, zeros) == values);
  CHECK(together(dtype::float32, zeros, zeros) == zeros);
  CHECK(weights_of({}) == adasum_weights{1.0, 1.0});
  CHECK(products_of(dtype::float32, nullptr, nullptr, 0) == adasum_products{});
}

TEST_CASE("adasum: the squares of a type's largest and smallest values neither overflow nor vanish") {
  const float limit = std::numeric_limits<float>::max();
  CHECK(together<float>(dtype::float32, {limit, 0}, {limit, 0}) == std::vector<float>{limit, 0});
  CHECK(together<float>(dtype::float32, {1e-38F}, {1e-38F}) == std::vector<float>{1e-38F});
  const std::vector<std::uint16_t> largest(1000, 0x7bff), smallest(1000, 0x0001);
  CHECK(together(dtype::float16, largest, largest) == largest);
  CHECK(together(dtype::float16, smallest, smallest) == smallest);
}

TEST_CASE("adasum: every type is read, weighted and rounded in its own format") {
  for (const dtype type : all_types) {
    CAPTURE(to_string(type));
    const bytes part = element_of(type, false), two = element_of(type, true);
    CHECK(products_of(type, part.data(), two.data(), 1) == adasum_products{2, 1, 4});
    bytes output(part.size());
    combine_adaptively(type, output.data(), part.data(), two.data(), 1, {1.0, 0.5});
    CHECK(output == two);
    combine_adaptively(type, output.data(), output.data(), part.data(), 1, {0.0, 1.0});
    CHECK(output == part);
  }
}

TEST_CASE("adasum: infinite and NaN inputs give NaN") {
  const float infinite = std::numeric_limits<float>::infinity();
  CHECK(std::isnan(together<float>(dtype::float32, {infinite, 1}, {1, 1})[0]));
  // The output is a quiet NaN of the type, whichever NaN came in.
  CHECK(together<std::uint16_t>(dtype::bfloat16, {0x7fff}, {0x3f80}) == std::vector<std::uint16_t>{0x7fc0});
  CHECK(together<std::uint16_t>(dtype::float16, {0xfe01}, {0x3c00}) == std::vector<std::uint16_t>{0x7e00});
}

TEST_CASE("adasum: products equal a plain sum for every length, and products of pieces add up") {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> real(-4, 4);
  for (std::size_t count = 0; count < 40; ++count) {
    std::vector<double> a, b;
    long double ab = 0, aa = 0, bb = 0;
    for (std::size_t at = 0; at < count; ++at) {
      a.push_back(real(random));
      b.push_back(real(random));
      ab += static_cast<long double>(a[at]) * b[at];
      aa += static_cast<long double>(a[at]) * a[at];
      bb += static_cast<long double>(b[at]) * b[at];
    }
    const bytes first = bytes_of(a), second = bytes_of(b);
    const auto whole = products_of(dtype::float64, first.data(), second.data(), count);
    const std::size_t index = count / 3;
    auto pieces = products_of(dtype::float64, first.data(), second.data(), index);
    pieces += products_of(dtype::float64, first.data() + 8 * index, second.data() + 8 * index, count - index);
    for (const auto& got : {whole, pieces}) {
      CHECK(got.ab == Approx(static_cast<double>(ab)).margin(1e-12));
      CHECK(got.aa == Approx(static_cast<double>(aa)));
      CHECK(got.bb == Approx(static_cast<double>(bb)));
    }
  }
}

TEST_CASE("adasum: integers, and a number of ranks that is no power of two, are refused with the reason") {
  for (const std::size_t members : {1, 2, 4, 8, 1024})
    CHECK_FALSE(why_no_adasum(dtype::float32, members));
  const error odd = why_no_adasum(dtype::float16, 6);
  CHECK(odd.kind == error_kind::unimplemented);
  CHECK(odd.text == "Adasum needs a number of ranks that is a power of two, not 6; run with 4 or 8, or use "
                    "Average");
  for (const dtype type : {dtype::uint8, dtype::int32, dtype::int64, dtype::boolean}) {
    const error whole = why_no_adasum(type, 4);
    CHECK(whole.kind == error_kind::invalid_argument);
    CHECK_THAT(whole.text, Catch::Contains(std::string(to_string(type))) && Catch::Contains("bfloat16"));
  }
}
