// The loops behind a kernel_table, written once and compiled for each instruction set by a source file that
// includes this. Everything is in an unnamed namespace and nothing of the standard library is called: a
// function that the linker could share between two such files would carry AVX code into a machine that has
// none.
//
// Every element is reduced on its own, inputs strictly in order, so vector width, blocks and tails cannot
// change a bit. Every NaN that comes out is the one quiet NaN: which of two NaNs an addition keeps would
// depend on the order in which a compiler puts its operands.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/math/kernels.hpp"
#include "collectives/math/narrow_floats.hpp"

#if defined(__clang__)
#define FARANDOLE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
// The output may be one of the inputs, element for element; it never overlaps one otherwise.
#define FARANDOLE_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace farandole::math {
namespace {

/// Elements that are reduced at a time where a sum has to wait for more inputs; it stays in the first-level
/// cache.
constexpr std::size_t block_elements = 1024;

/// T at any address.
template <class T>
struct unaligned {
  typedef T type __attribute__((aligned(1), may_alias));
};

template <class T>
inline constexpr bool is_float = false;
template <>
inline constexpr bool is_float<float> = true;
template <>
inline constexpr bool is_float<double> = true;

template <class T>
struct unsigned_of;
template <>
struct unsigned_of<std::uint8_t> {
  using type = std::uint32_t;
};
template <>
struct unsigned_of<std::int8_t> {
  using type = std::uint32_t;
};
template <>
struct unsigned_of<std::uint16_t> {
  using type = std::uint32_t;
};
template <>
struct unsigned_of<std::int16_t> {
  using type = std::uint32_t;
};
template <>
struct unsigned_of<std::int32_t> {
  using type = std::uint32_t;
};
template <>
struct unsigned_of<std::int64_t> {
  using type = std::uint64_t;
};

/// Minimum and maximum are NaN when any input is; of equal values (−0 and 0 are) the first rank's stays.
template <combination C, class T>
inline T combine(T left, T right) {
  if constexpr (C == combination::min)
    return (right < left) | (right != right) ? right : left;
  else if constexpr (C == combination::max)
    return (right > left) | (right != right) ? right : left;
  else if constexpr (is_float<T>)
    return C == combination::sum ? left + right : left * right;
  else {
    using wide = typename unsigned_of<T>::type; // wraps, and is wide enough not to be promoted to int
    return static_cast<T>(C == combination::sum ? static_cast<wide>(left) + static_cast<wide>(right)
                                                : static_cast<wide>(left) * static_cast<wide>(right));
  }
}

/// Truncated toward zero; what does not fit 64 bits becomes the nearest that does, NaN becomes 0.
inline std::int64_t truncated(double value) {
  bool low = value < -0x1p63;
  bool high = value >= 0x1p63;
  auto inside = static_cast<std::int64_t>(low | high | (value != value) ? 0.0 : value);
  return low ? INT64_MIN : high ? INT64_MAX : inside;
}

/// Multiplies by a factor the way the element type asks for. Multiplying a float by 1 changes nothing.
template <class T>
class factor {
public:
  explicit factor(double value) : value_(static_cast<T>(value)) {}
  T operator()(T element) const { return element * value_; }

private:
  T value_;
};

template <class T>
requires(!is_float<T>) class factor<T> {
public:
  explicit factor(double value) : value_(value) {}
  T operator()(T element) const {
    return value_ == 1.0 ? element : static_cast<T>(truncated(static_cast<double>(element) * value_));
  }

private:
  double value_;
};

template <class T>
inline T settled(T value) {
  if constexpr (is_float<T>)
    return value == value ? value : static_cast<T>(__builtin_nan(""));
  else
    return value;
}

/// One run over `count` elements that takes N more inputs. The first run starts from its first input, later
/// ones from `output`, where the earlier ones left their result; the last run multiplies and settles NaNs.
template <class T, combination C, int N, bool First, bool Last, bool Scaled>
void pass(void* output, const void* partial, const void* const* inputs, std::size_t count, scales factors) {
  using lane = typename unaligned<T>::type;
  const factor<T> before{factors.before};
  const factor<T> after{factors.after};
  auto take = [&before](T element) { return Scaled ? before(element) : element; };
  auto* out = static_cast<lane*>(output);
  const auto* so_far = static_cast<const lane*>(partial);
  const auto* a = static_cast<const lane*>(inputs[0]);
  const auto* b = static_cast<const lane*>(inputs[N > 1 ? 1 : 0]);
  const auto* c = static_cast<const lane*>(inputs[N > 2 ? 2 : 0]);
  const auto* d = static_cast<const lane*>(inputs[N > 3 ? 3 : 0]);
  FARANDOLE_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    if constexpr (First)
      value = take(a[i]);
    else
      value = combine<C, T>(so_far[i], take(a[i]));
    if constexpr (N > 1)
      value = combine<C, T>(value, take(b[i]));
    if constexpr (N > 2)
      value = combine<C, T>(value, take(c[i]));
    if constexpr (N > 3)
      value = combine<C, T>(value, take(d[i]));
    if constexpr (Last)
      value = settled<T>(Scaled ? after(value) : value);
    out[i] = value;
  }
}

/// The last run, for as many inputs as are left (at least one).
template <class T, combination C, bool First, bool Scaled, int Most>
void last_pass(void* output, const void* partial, const void* const* inputs, std::size_t left,
               std::size_t count, scales factors) {
  if constexpr (Most > 1) {
    if (left < Most)
      return last_pass<T, C, First, Scaled, Most - 1>(output, partial, inputs, left, count, factors);
  }
  pass<T, C, Most, First, true, Scaled>(output, partial, inputs, count, factors);
}

/// Elements that are reduced as they are.
template <class T>
struct same {
  using value = T;
  static constexpr std::size_t bytes = sizeof(T);
  static constexpr bool narrow = false;
};

/// Elements that are widened to float first and rounded back, once, at the end.
template <void (*Widen)(float*, const std::byte*, std::size_t),
          void (*Narrow)(std::byte*, const float*, std::size_t)>
struct widened {
  using value = float;
  static constexpr std::size_t bytes = 2;
  static constexpr bool narrow = true;
  static void widen(float* to, const std::byte* from, std::size_t count) { Widen(to, from, count); }
  static void round(std::byte* to, const float* from, std::size_t count) { Narrow(to, from, count); }
};

/// One block: `inputs` already point at it.
template <class Format, combination C, bool Scaled, int Width>
class block_reducer {
public:
  using value = typename Format::value;

  void operator()(std::byte* output, const std::byte* const* inputs, std::size_t members, std::size_t start,
                  std::size_t count, scales factors) {
    std::size_t taken = members < Width ? members : Width;
    stage(inputs, start, taken, count);
    void* target = output + start * Format::bytes;
    if constexpr (Format::narrow)
      target = partial_;
    if (taken == members) {
      last_pass<value, C, true, Scaled, Width>(target, nullptr, staged_, taken, count, factors);
    } else {
      pass<value, C, Width, true, false, Scaled>(partial_, nullptr, staged_, count, factors);
      for (; members - taken > Width; taken += Width) {
        stage(inputs + taken, start, Width, count);
        pass<value, C, Width, false, false, Scaled>(partial_, partial_, staged_, count, factors);
      }
      stage(inputs + taken, start, members - taken, count);
      last_pass<value, C, false, Scaled, Width>(target, partial_, staged_, members - taken, count, factors);
    }
    if constexpr (Format::narrow)
      Format::round(output + start * Format::bytes, partial_, count);
  }

private:
  void stage(const std::byte* const* inputs, std::size_t start, std::size_t members, std::size_t count) {
    for (std::size_t i = 0; i < members; ++i) {
      const auto* from = inputs[i] + start * Format::bytes;
      if constexpr (Format::narrow)
        Format::widen(wide_[i], from, count);
      staged_[i] = Format::narrow ? static_cast<const void*>(wide_[i]) : from;
    }
  }

  // Left uninitialised: a small reduction must not pay for a block.
  value partial_[block_elements];
  value wide_[Format::narrow ? Width : 1][Format::narrow ? block_elements : 1];
  const void* staged_[Width];
};

template <class Format, combination C, bool Scaled>
void reduce_elements(std::byte* output, const std::byte* const* inputs, std::size_t members,
                     std::size_t count, scales factors) {
  constexpr int width = is_float<typename Format::value> && C == combination::sum ? 4 : 2;
  block_reducer<Format, C, Scaled, width> reducer;
  // Without a partial result to keep nor anything to widen, one run goes over everything.
  std::size_t step = !Format::narrow && members <= width ? count : block_elements;
  for (std::size_t start = 0; start < count; start += step)
    reducer(output, inputs, members, start, count - start < step ? count - start : step, factors);
}

template <class Format, combination C>
constexpr kernel_row row() {
  return {&reduce_elements<Format, C, false>, &reduce_elements<Format, C, true>};
}

template <class Format>
constexpr void fill(kernel_table& table, dtype type) {
  auto& rows = table.rows[static_cast<std::size_t>(type)];
  rows[static_cast<std::size_t>(combination::sum)] = row<Format, combination::sum>();
  rows[static_cast<std::size_t>(combination::min)] = row<Format, combination::min>();
  rows[static_cast<std::size_t>(combination::max)] = row<Format, combination::max>();
  rows[static_cast<std::size_t>(combination::product)] = row<Format, combination::product>();
}

constexpr kernel_table make_kernels(const char* name) {
  kernel_table table{name, {}};
  fill<same<std::uint8_t>>(table, dtype::uint8);
  fill<same<std::int8_t>>(table, dtype::int8);
  fill<same<std::uint16_t>>(table, dtype::uint16);
  fill<same<std::int16_t>>(table, dtype::int16);
  fill<same<std::int32_t>>(table, dtype::int32);
  fill<same<std::int64_t>>(table, dtype::int64);
  fill<widened<widen_float16, round_to_float16>>(table, dtype::float16);
  fill<widened<widen_bfloat16, round_to_bfloat16>>(table, dtype::bfloat16);
  fill<same<float>>(table, dtype::float32);
  fill<same<double>>(table, dtype::float64);
  return table;
}

} // namespace
} // namespace farandole::math
