// What a pass does to an element. An operation has the types of an element in memory, before and after
// (`source` and `target`), is made of the scale, and is called with an element; a copy returns it. A thread
// loads `packets_at_once` packets (pass_thread.hpp) before it stores the first, so that their latencies
// overlap: with three, the threads of a multiprocessor have 48 KiB in flight. There are registers for so
// many.
#pragma once

#include <cstdint>

#include "cuda/kernels/device_code.hpp"
#include "cuda/kernels/narrow_floats.hpp"

namespace farandole::kernels {

/// The bytes as they are.
template <class T>
struct copied {
  static constexpr bool is_copy = true;
  static constexpr unsigned packets_at_once = 4;
  using source = T;
  using target = T;
  FARANDOLE_HOST_DEVICE explicit copied(double) {}
  FARANDOLE_HOST_DEVICE T operator()(T element) const { return element; }
};

/// Toward zero. Values beyond 64 bits become the least or the largest number, NaN becomes 0.
FARANDOLE_HOST_DEVICE inline std::int64_t truncated(double value) {
  if (value < -0x1p63)
    return INT64_MIN;
  if (value >= 0x1p63)
    return INT64_MAX;
  return value == value ? static_cast<std::int64_t>(value) : 0;
}

template <class T>
class scaled_integer {
public:
  static constexpr bool is_copy = false;
  static constexpr unsigned packets_at_once = 1;
  using source = T;
  using target = T;
  FARANDOLE_HOST_DEVICE explicit scaled_integer(double scale) : scale_(scale) {}
  FARANDOLE_HOST_DEVICE T operator()(T element) const {
    return static_cast<T>(truncated(static_cast<double>(element) * scale_));
  }

private:
  double scale_;
};

/// How a type of floats is stored, and the type that it is multiplied in.
struct float16_format {
  using storage = std::uint16_t;
  using value = float;
  FARANDOLE_HOST_DEVICE static float load(storage element) { return widened_float16(element); }
  template <class Value>
  FARANDOLE_HOST_DEVICE static storage store(Value result) {
    return rounded_float16(result);
  }
};

struct bfloat16_format {
  using storage = std::uint16_t;
  using value = float;
  FARANDOLE_HOST_DEVICE static float load(storage element) { return widened_bfloat16(element); }
  template <class Value>
  FARANDOLE_HOST_DEVICE static storage store(Value result) {
    return rounded_bfloat16(result);
  }
};

template <class T>
struct plain_format {
  using storage = T;
  using value = T;
  FARANDOLE_HOST_DEVICE static T load(storage element) { return element; }
  template <class Value>
  FARANDOLE_HOST_DEVICE static storage store(Value result) {
    return static_cast<T>(result);
  }
};
using float32_format = plain_format<float>;
using float64_format = plain_format<double>;

template <class First, class Second>
struct wider {
  using type = decltype(First() + Second());
};

template <class From, class To>
class scaled_float {
public:
  static constexpr bool is_copy = false;
  using source = typename From::storage;
  using target = typename To::storage;
  static constexpr unsigned packets_at_once = sizeof(source) > sizeof(target)   ? 1
                                              : sizeof(source) < sizeof(target) ? 2
                                                                                : 3;
  using value = typename wider<typename From::value, typename To::value>::type;
  FARANDOLE_HOST_DEVICE explicit scaled_float(double scale) : scale_(static_cast<value>(scale)) {}
  FARANDOLE_HOST_DEVICE target operator()(source element) const {
    const value product = static_cast<value>(From::load(element)) * scale_;
    return To::store(product == product ? product : static_cast<value>(__builtin_nan("")));
  }

private:
  value scale_;
};

} // namespace farandole::kernels
