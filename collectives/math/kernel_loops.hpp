// The loops behind a kernel_table. Each instruction set has a source file that includes this header and compiles
// the loops for it. Everything is in an unnamed namespace and calls no function of the standard library: the
// linker merges functions with external linkage across these files, and could thus put AVX code into the
// kernels of a machine without AVX.
//
// Every element is reduced on its own, with the inputs strictly in order, so vector width, block size and loop
// tails never change the result. Every NaN result is the same quiet NaN: which of two NaNs an addition keeps
// would otherwise depend on the order in which a compiler puts its operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "collectives/math/float16_pass.hpp"
#include "collectives/math/kernels.hpp"
#include "collectives/math/narrow_floats.hpp"

#if defined(__clang__)
#define FARANDOLE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
// The output may be identical to one of the inputs; it never overlaps one partially.
#define FARANDOLE_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace farandole::math {
namespace {

/// Number of elements in a block of partial results when a reduction needs several passes. A block fits into the
/// L1 cache.
constexpr std::size_t block_elements = 1024;

/// T without any alignment requirement.
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

/// Minimum and maximum are NaN if any input is NaN. Of equal values (−0 equals 0) the first rank's is kept.
template <combination C, class T>
inline T combine(T left, T right) {
  if constexpr (C == combination::min)
    return (right < left) | (right != right) ? right : left;
  else if constexpr (C == combination::max)
    return (right > left) | (right != right) ? right : left;
  else if constexpr (is_float<T>)
    return C == combination::sum ? left + right : left * right;
  else {
    using wide = typename unsigned_of<T>::type; // unsigned, so it wraps; too wide to be promoted to int
    return static_cast<T>(C == combination::sum ? static_cast<wide>(left) + static_cast<wide>(right)
                                                : static_cast<wide>(left) * static_cast<wide>(right));
  }
}

/// Truncates toward zero. Values outside the range of 64 bits saturate; NaN becomes 0.
inline std::int64_t truncated(double value) {
  bool low = value < -0x1p63;
  bool high = value >= 0x1p63;
  auto inside = static_cast<std::int64_t>(low | high | (value != value) ? 0.0 : value);
  return low ? INT64_MIN : high ? INT64_MAX : inside;
}

/// Multiplies an element by a scale factor: floats in their own type, integers in double with truncation.
/// Multiplying a float by 1 changes nothing, so only integers treat a factor of 1 specially.
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

/// Turns a sum into the mean: a float is divided by `divisor` / `after` in its own type, so the mean of equal values
/// is exact where their sum is. An integer is multiplied by `after` in double, unless that is 1, and divided;
/// the result is truncated.
template <class T>
class quotient {
public:
  explicit quotient(scales factors) : divisor_(static_cast<T>(factors.divisor / factors.after)) {}
  T operator()(T sum) const { return sum / divisor_; }

private:
  T divisor_;
};

template <>
class quotient<std::int64_t> {
public:
  explicit quotient(scales factors) : after_(factors.after), divisor_(factors.divisor) {}
  std::int64_t operator()(std::int64_t sum) const {
    return after_ == 1.0 ? sum / static_cast<std::int64_t>(divisor_)
                         : truncated(static_cast<double>(sum) * after_ / divisor_);
  }

private:
  double after_;
  double divisor_;
};

/// Replaces any NaN by the one quiet NaN.
template <class T>
inline T settled(T value) {
  if constexpr (is_float<T>)
    return value == value ? value : static_cast<T>(__builtin_nan(""));
  else
    return value;
}

/// The format of elements that are reduced in their own type.
template <class T>
struct same {
  using storage = T;
  using value = T;
  static value load(storage element) { return element; }
  static storage store(value result) { return result; }
};

/// The format of integers whose mean is computed: they are summed in 64 bits.
template <class T>
struct widened_integer {
  using storage = T;
  using value = std::int64_t;
  static value load(storage element) { return element; }
  static storage store(value result) { return static_cast<storage>(result); }
};

/// bfloat16: elements are widened to float, and rounded back once, at the end.
struct brain {
  using storage = std::uint16_t;
  using value = float;
  static value load(storage element) { return widened_bfloat16(element); }
  static storage store(value result) { return rounded_bfloat16(result); }
};

/// float16, likewise.
struct half {
  using storage = std::uint16_t;
  using value = float;
  static value load(storage element) { return widened_float16(element); }
  static storage store(value result) { return rounded_float16(result); }
};

/// What a pass does with the scales: nothing, it multiplies by `before` and `after`, or it also divides.
enum class scaling : unsigned char { none, factors, mean };

/// The parameters of one pass over a range of elements. The pass combines `inputs` further inputs.
/// - The first pass starts from its first input; later passes start from `partial`, the result of the earlier
///   ones.
/// - The last pass applies the postscale and the divisor, replaces NaNs and stores elements; the others store intermediate
///   values.
template <combination C, int Inputs, bool First, bool Last, scaling Scaling>
struct run {
  static constexpr combination combine_by = C;
  static constexpr int inputs = Inputs;
  static constexpr bool first = First;
  static constexpr bool last = Last;
  static constexpr bool scaled = Scaling != scaling::none;
  static constexpr bool divides = Scaling == scaling::mean;
};

template <class Format, class Run>
struct pass {
  using value = typename Format::value;
  using element = typename unaligned<typename Format::storage>::type;
  using target = typename unaligned<std::conditional_t<Run::last, typename Format::storage, value>>::type;

  static void go(void* output, const value* partial, const std::byte* const* inputs, std::size_t count,
                 scales factors) {
    constexpr auto combination = Run::combine_by;
    const factor<value> before{factors.before};
    const auto after = [&factors] {
      if constexpr (Run::divides)
        return quotient<value>{factors};
      else
        return factor<value>{factors.after};
    }();
    auto take = [&before](typename Format::storage storage) {
      value wide = Format::load(storage);
      return Run::scaled ? before(wide) : wide;
    };
    auto* entry = static_cast<target*>(output);
    const auto* a = reinterpret_cast<const element*>(Run::inputs > 0 ? inputs[0] : nullptr);
    const auto* b = reinterpret_cast<const element*>(Run::inputs > 1 ? inputs[1] : nullptr);
    const auto* c = reinterpret_cast<const element*>(Run::inputs > 2 ? inputs[2] : nullptr);
    const auto* d = reinterpret_cast<const element*>(Run::inputs > 3 ? inputs[3] : nullptr);
    FARANDOLE_INDEPENDENT
    for (std::size_t i = 0; i < count; ++i) {
      value result;
      if constexpr (Run::first)
        result = take(a[i]);
      else
        result = partial[i];
      if constexpr (!Run::first && Run::inputs > 0)
        result = combine<combination, value>(result, take(a[i]));
      if constexpr (Run::inputs > 1)
        result = combine<combination, value>(result, take(b[i]));
      if constexpr (Run::inputs > 2)
        result = combine<combination, value>(result, take(c[i]));
      if constexpr (Run::inputs > 3)
        result = combine<combination, value>(result, take(d[i]));
      if constexpr (Run::last)
        entry[i] = Format::store(settled<value>(Run::scaled ? after(result) : result));
      else
        entry[i] = result;
    }
  }
};

#if defined(__F16C__)
template <class Run>
struct pass<half, Run> : float16_pass<Run> {};
#endif

/// Runs the last pass over the `left` remaining inputs, at least one and at most `Most`.
template <class Format, combination C, bool First, scaling Scaling, int Most>
void last_pass(std::byte* output, const typename Format::value* partial, const std::byte* const* inputs,
               std::size_t left, std::size_t count, scales factors) {
  if constexpr (Most > 1) {
    if (left < Most)
      return last_pass<Format, C, First, Scaling, Most - 1>(output, partial, inputs, left, count, factors);
  }
  pass<Format, run<C, Most, First, true, Scaling>>::go(output, partial, inputs, count, factors);
}

constexpr std::size_t smaller(std::size_t a, std::size_t b) {
  return a < b ? a : b;
}

/// Sums of floats, the usual case in training: up to four inputs in one pass. With more inputs, a block of
/// partial sums stays in the cache between the passes.
template <class Format, scaling Scaling>
void sum_floats(std::byte* output, const std::byte* const* inputs, std::size_t members, std::size_t count,
                scales factors) {
  constexpr auto sum = combination::sum;
  if (members <= 4)
    return last_pass<Format, sum, true, Scaling, 4>(output, nullptr, inputs, members, count, factors);
  constexpr std::size_t element_bytes = sizeof(typename Format::storage);
  typename Format::value partial[block_elements];
  const std::byte* local[4];
  for (std::size_t start = 0; start < count; start += block_elements) {
    auto size = smaller(count - start, block_elements);
    auto point = [&](std::size_t taken, std::size_t more) {
      for (std::size_t i = 0; i < more; ++i)
        local[i] = inputs[taken + i] + start * element_bytes;
    };
    point(0, 4);
    pass<Format, run<sum, 4, true, false, Scaling>>::go(partial, nullptr, local, size, factors);
    std::size_t taken = 4;
    for (; members - taken > 4; taken += 4) {
      point(taken, 4);
      pass<Format, run<sum, 4, false, false, Scaling>>::go(partial, partial, local, size, factors);
    }
    point(taken, members - taken);
    last_pass<Format, sum, false, Scaling, 4>(output + start * element_bytes, partial, local, members - taken,
                                              size, factors);
  }
}

/// All other reductions run block by block in small steps that all combinations share: load an input (widened
/// and prescaled), combine it with the partial result, store the result (postscaled and rounded). NaNs are
/// replaced in every step, which gives the same bits as replacing them once at the end.
template <class Format, combination C, scaling Scaling>
void combine_in_steps(std::byte* output, const std::byte* const* inputs, std::size_t members,
                      std::size_t count, scales factors) {
  using value = typename Format::value;
  using join = pass<same<value>, run<C, 2, true, true, scaling::none>>;
  constexpr bool is_plain = Scaling == scaling::none;
  // The passes that scale a format that is reduced in another type multiply by 1 where there is nothing to scale.
  constexpr scaling applied = is_plain ? scaling::factors : Scaling;
  if (is_plain && members == 2)
    return pass<Format, run<C, 2, true, true, scaling::none>>::go(output, nullptr, inputs, count, factors);
  constexpr bool as_it_is = is_plain && sizeof(typename Format::storage) == sizeof(value);
  constexpr std::size_t element_bytes = sizeof(typename Format::storage);
  value partial[block_elements];
  value next[block_elements];
  for (std::size_t start = 0; start < count; start += block_elements) {
    auto size = smaller(count - start, block_elements);
    auto take = [&](value* scratch, std::size_t member) {
      const auto* from = inputs[member] + start * element_bytes;
      if constexpr (as_it_is)
        return from;
      pass<Format, run<combination::sum, 1, true, false, applied>>::go(scratch, nullptr, &from, size,
                                                                       factors);
      return reinterpret_cast<const std::byte*>(scratch);
    };
    auto* target = output + start * element_bytes;
    const std::byte* sides[2] = {take(partial, 0), nullptr};
    for (std::size_t i = 1; i < members; ++i) {
      sides[1] = take(next, i);
      auto* result = as_it_is && i + 1 == members ? target : reinterpret_cast<std::byte*>(partial);
      join::go(result, nullptr, sides, size, factors);
      sides[0] = result;
    }
    if constexpr (!as_it_is)
      pass<Format, run<combination::sum, 0, false, true, applied>>::go(target, partial, nullptr, size,
                                                                       factors);
  }
}

template <class Format, combination C, scaling Scaling>
constexpr kernel kernel_of() {
  if constexpr (is_float<typename Format::value> && C == combination::sum)
    return &sum_floats<Format, Scaling>;
  else
    return &combine_in_steps<Format, C, Scaling>;
}

template <class Format, combination C>
constexpr kernel_row row() {
  return {kernel_of<Format, C, scaling::none>(), kernel_of<Format, C, scaling::factors>()};
}

template <class Format>
constexpr kernel mean_of() {
  if constexpr (is_float<typename Format::value>)
    return &sum_floats<Format, scaling::mean>;
  else
    return &combine_in_steps<widened_integer<typename Format::storage>, combination::sum, scaling::mean>;
}

template <class Format>
constexpr void fill(kernel_table& table, dtype type) {
  auto& rows = table.rows[static_cast<std::size_t>(type)];
  rows[static_cast<std::size_t>(combination::sum)] = row<Format, combination::sum>();
  rows[static_cast<std::size_t>(combination::sum)].mean = mean_of<Format>();
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
  fill<half>(table, dtype::float16);
  fill<brain>(table, dtype::bfloat16);
  fill<same<float>>(table, dtype::float32);
  fill<same<double>>(table, dtype::float64);
  return table;
}

} // namespace
} // namespace farandole::math
