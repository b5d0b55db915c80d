// The element types of tensors, and the reductions over them.
// Their numbers are part of the wire format and of the Python interface; they never change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace farandole {

enum class dtype : std::uint8_t {
  uint8 = 0,
  int8 = 1,
  uint16 = 2,
  int16 = 3,
  int32 = 4,
  int64 = 5,
  float16 = 6,
  bfloat16 = 7,
  float32 = 8,
  float64 = 9,
  boolean = 10,
};
inline constexpr std::size_t dtype_count = 11;

/// Bytes of one element.
constexpr std::size_t size_of(dtype type) {
  constexpr std::uint8_t bytes[dtype_count] = {1, 1, 2, 2, 4, 8, 2, 2, 4, 8, 1};
  return bytes[static_cast<std::size_t>(type)];
}

/// The name that Python uses ("float32", "bool").
std::string_view to_string(dtype type);

/// Converts a number from another process; empty if it is not a dtype.
constexpr std::optional<dtype> dtype_from(std::uint32_t number) {
  return number < dtype_count ? std::optional{static_cast<dtype>(number)} : std::nullopt;
}

/// The numbers are those of the Horovod interface (`hvd.Average` is 0).
enum class reduce_op : std::uint8_t { average = 0, sum = 1, adasum = 2, min = 3, max = 4, product = 5 };
inline constexpr std::size_t reduce_op_count = 6;

std::string_view to_string(reduce_op op);

constexpr std::optional<reduce_op> reduce_op_from(std::uint32_t number) {
  return number < reduce_op_count ? std::optional{static_cast<reduce_op>(number)} : std::nullopt;
}

} // namespace farandole
