// The operation table has one row for each operation that can be requested. Negotiation, fusion, paths and
// the bindings read it; a new operation is a new row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "messages/values/signature.hpp"

namespace farandole {

/// How members on one host may use the fast path for a tensor, without a message to the leader.
enum class fast_path_use : std::uint8_t {
  none,
  bytes,      ///< a small tensor is stored whole in a cell; a larger one is handled as `collective`
  collective, ///< any size: the waiting callers run the collective themselves
};

/// How an operation changes the first dimension of a tensor.
enum class row_use : std::uint8_t {
  whole,     ///< nothing: the result has the shape of the tensor
  gathered,  ///< the result holds the rows of all members, in rank order
  dealt,     ///< each member states how many of its rows go to each member
  segmented, ///< each member gets its segment of the rows, of almost equal sizes
};

struct operation_row {
  farandole::operation id;
  std::string_view name;
  row_use rows = row_use::whole;
  bool moves_tensor = true;
  bool reduces = false;      ///< combines elements: uses the reduce op and the scales, refuses bool
  bool takes_adasum = false; ///< supports Adasum, which needs whole tensors
  bool has_root = false;     ///< one rank is the source; ranks must agree on it
  bool fusible = false;      ///< several tensors may share a bundle
  fast_path_use on_fast_path = fast_path_use::none;
  bool takes_zeros = false; ///< allowed while some ranks have joined; other operations are refused then

  /// Splits or extends the first dimension, so scalars are refused.
  constexpr bool has_rows() const { return rows != row_use::whole; }
  /// Members' shapes may differ in their first extent. The size of the result is known only when the
  /// operation runs, and the core then allocates it.
  constexpr bool first_dim_free() const { return rows == row_use::gathered || rows == row_use::dealt; }
};

inline constexpr operation_row operation_table[operation_count] = {
    {.id = operation::allreduce,
     .name = "allreduce",
     .reduces = true,
     .takes_adasum = true,
     .fusible = true,
     .on_fast_path = fast_path_use::bytes,
     .takes_zeros = true},
    {.id = operation::allgather,
     .name = "allgather",
     .rows = row_use::gathered,
     .fusible = true,
     .on_fast_path = fast_path_use::collective},
    {.id = operation::broadcast, .name = "broadcast", .has_root = true, .on_fast_path = fast_path_use::bytes},
    {.id = operation::barrier,
     .name = "barrier",
     .moves_tensor = false,
     .on_fast_path = fast_path_use::bytes,
     .takes_zeros = true},
    {.id = operation::join, .name = "join", .moves_tensor = false, .takes_zeros = true},
    {.id = operation::alltoall,
     .name = "alltoall",
     .rows = row_use::dealt,
     .on_fast_path = fast_path_use::collective},
    {.id = operation::reducescatter,
     .name = "reducescatter",
     .rows = row_use::segmented,
     .reduces = true,
     .fusible = true,
     .on_fast_path = fast_path_use::collective},
};

constexpr const operation_row& row_of(operation id) {
  return operation_table[static_cast<std::size_t>(id)];
}

/// How members on one host may use the fast path for this tensor of `bytes`. Tensors of up to `limit_bytes`
/// are small.
inline fast_path_use use_of_fast_path(const signature& tensor, std::size_t bytes, std::size_t limit_bytes) {
  const auto& row = row_of(tensor.operation);
  if (tensor.memory != memory_kind::host)
    return fast_path_use::none; // callers cannot touch the memory of a device
  if (row.reduces && (tensor.reduce_op == reduce_op::adasum || tensor.dtype == dtype::boolean))
    return fast_path_use::none;
  return row.on_fast_path == fast_path_use::bytes && bytes > limit_bytes ? fast_path_use::collective
                                                                         : row.on_fast_path;
}

} // namespace farandole
