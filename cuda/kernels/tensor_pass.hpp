// One pass of a GPU over a list of tensors: each element is copied, or scaled, or converted to another type.
// A bundle of fused tensors is packed and unpacked by one pass each, instead of one copy for each tensor.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "messages/values/dtype.hpp"

namespace farandole {

/// Addresses of device memory, multiples of the size of their elements.
struct pass_piece {
  const std::byte* input = nullptr; ///< null: each element becomes the neutral value, as it is
  std::byte* output = nullptr;      ///< may be equal to `input` if both types have the same size
  std::size_t elements = 0;
};

/// Output and input of the pieces do not overlap otherwise. The values are those of
/// collectives/math/reduce.hpp:
///
/// - `from` equals `to`, and the scale is 1: a copy of the bytes.
/// - Floats are multiplied in the type that they are reduced in, to which the scale is rounded first: float for all but
///   float64. The product is rounded to `to` once, to the nearest value, ties to even. NaN becomes the quiet NaN.
/// - Integers are multiplied in double, truncated toward zero, and wrapped to their size.
/// - Floats of different types: in double if either type is float64, else in float.
struct tensor_pass {
  dtype from = dtype::float32;
  dtype to = dtype::float32;          ///< the same, or both are floats
  double scale = 1.0;                 ///< 1 for bool
  std::array<std::byte, 8> neutral{}; ///< an element of `to`, in the first bytes
  std::vector<pass_piece> pieces;
};

} // namespace farandole
