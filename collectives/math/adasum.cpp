#include "collectives/math/adasum.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "collectives/math/narrow_floats.hpp"

namespace farandole {

namespace {

/// Converts to T. Every NaN becomes the same quiet NaN.
template <class T>
T narrowed(double value) {
  return value == value ? static_cast<T>(value) : std::numeric_limits<T>::quiet_NaN();
}

// The storage formats of elements. No alignment is required.
template <class T>
struct stored {
  using type = T;
  static double widened(T value) { return static_cast<double>(value); }
  static T rounded(double value) { return narrowed<T>(value); }
};
struct stored_float16 {
  using type = std::uint16_t;
  static double widened(type bits) { return math::widened_float16(bits); }
  static type rounded(double value) { return math::rounded_float16(narrowed<float>(value)); }
};
struct stored_bfloat16 {
  using type = std::uint16_t;
  static double widened(type bits) { return math::widened_bfloat16(bits); }
  static type rounded(double value) { return math::rounded_bfloat16(narrowed<float>(value)); }
};

template <class As>
typename As::type element(const std::byte* from, std::size_t at) {
  typename As::type value;
  std::memcpy(&value, from + at * sizeof value, sizeof value);
  return value;
}

/// Number of independent partial sums; they fit into a vector register.
constexpr std::size_t lanes = 8;

template <class As>
adasum_products products(const std::byte* a, const std::byte* b, std::size_t count) {
  double ab[lanes] = {}, aa[lanes] = {}, bb[lanes] = {};
  const auto add = [&](std::size_t lane, std::size_t at) {
    const double x = As::widened(element<As>(a, at)), y = As::widened(element<As>(b, at));
    ab[lane] += x * y;
    aa[lane] += x * x;
    bb[lane] += y * y;
  };
  std::size_t at = 0;
  for (; at + lanes <= count; at += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane)
      add(lane, at + lane);
  for (std::size_t lane = 0; at < count; ++lane, ++at)
    add(lane, at);
  for (std::size_t width = lanes / 2; width > 0; width /= 2)
    for (std::size_t lane = 0; lane < width; ++lane) {
      ab[lane] += ab[lane + width];
      aa[lane] += aa[lane + width];
      bb[lane] += bb[lane + width];
    }
  return {ab[0], aa[0], bb[0]};
}

template <class As>
void combine(std::byte* output, const std::byte* a, const std::byte* b, std::size_t count,
             adasum_weights weights) {
  for (std::size_t at = 0; at < count; ++at) {
    const double sum =
        weights.a * As::widened(element<As>(a, at)) + weights.b * As::widened(element<As>(b, at));
    const typename As::type value = As::rounded(sum);
    std::memcpy(output + at * sizeof value, &value, sizeof value);
  }
}

/// Calls `use` with the storage format of `type`.
template <class Use>
auto with_type(dtype type, const Use& use) {
  switch (type) {
  case dtype::float16:
    return use(stored_float16{});
  case dtype::bfloat16:
    return use(stored_bfloat16{});
  case dtype::float32:
    return use(stored<float>{});
  default:
    assert(type == dtype::float64 && "why_no_adasum() refuses the others");
    return use(stored<double>{});
  }
}

} // namespace

adasum_products& adasum_products::operator+=(const adasum_products& other) {
  ab += other.ab;
  aa += other.aa;
  bb += other.bb;
  return *this;
}

error why_no_adasum(dtype type, std::size_t members) {
  constexpr dtype taken[] = {dtype::float16, dtype::bfloat16, dtype::float32, dtype::float64};
  if (std::find(std::begin(taken), std::end(taken), type) == std::end(taken))
    return {error_kind::invalid_argument, "Adasum of " + std::string(to_string(type)) +
                                              ": it takes float16, bfloat16, float32 and float64"};
  if (std::has_single_bit(members))
    return {};
  const auto fewer = std::to_string(std::bit_floor(members)), more = std::to_string(std::bit_ceil(members));
  return {error_kind::unimplemented, "Adasum needs a number of ranks that is a power of two, not " +
                                         std::to_string(members) + "; run with " + fewer + " or " + more +
                                         ", or use Average"};
}

adasum_products products_of(dtype type, const std::byte* a, const std::byte* b, std::size_t count) {
  return with_type(type, [&](auto as) { return products<decltype(as)>(a, b, count); });
}

adasum_weights weights_of(const adasum_products& products) {
  return {products.aa == 0.0 ? 1.0 : 1.0 - products.ab / (2.0 * products.aa),
          products.bb == 0.0 ? 1.0 : 1.0 - products.ab / (2.0 * products.bb)};
}

void combine_adaptively(dtype type, std::byte* output, const std::byte* a, const std::byte* b,
                        std::size_t count, const adasum_weights& weights) {
  with_type(type, [&](auto as) { combine<decltype(as)>(output, a, b, count, weights); });
}

} // namespace farandole
