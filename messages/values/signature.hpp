// The properties that ranks must agree on before a tensor moves: operation, dtype, shape, reduction, scales, root,
// kind of memory.
// Two requests with equal signatures (and equal names) belong to the same collective.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "messages/values/device.hpp"
#include "messages/values/dtype.hpp"

namespace farandole {

/// The numbers are part of the wire format and never change. collectives/operation.hpp has a row for each.
enum class operation : std::uint8_t {
  allreduce = 0,
  allgather = 1,
  broadcast = 2,
  barrier = 3,
  join = 4,
  alltoall = 5,
  reducescatter = 6
};
inline constexpr std::size_t operation_count = 7;

/// Extents in elements, outermost first. Empty for a scalar (one element).
using shape = std::vector<std::int64_t>;

struct signature {
  farandole::operation operation = farandole::operation::allreduce;
  farandole::dtype dtype = farandole::dtype::float32;
  farandole::reduce_op reduce_op = farandole::reduce_op::sum;
  std::int32_t root = -1; ///< global rank of the source of a broadcast; -1 otherwise
  double prescale = 1.0;
  double postscale = 1.0;
  memory_kind memory = memory_kind::host;
  farandole::shape shape; ///< of this rank's input

  /// Scales are compared bit by bit, as the interface asks.
  friend bool operator==(const signature& a, const signature& b);
};

/// Elements of a tensor of this shape.
std::int64_t element_count(const shape& extents);

/// Elements of one row: of all dimensions but the first, which there must be.
std::int64_t elements_of_row(const shape& extents);

/// Bytes of one row of a tensor.
std::size_t bytes_of_row(const signature& signature);

/// "[3, 4]", for error texts.
std::string to_string(const shape& extents);

} // namespace farandole
