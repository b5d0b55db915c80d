// The operation table: one row for everything that can be asked of the group. Negotiation, fusion, paths and
// the bindings read it; a new operation is a new row.
#pragma once

#include <cstdint>
#include <string_view>

#include "messages/signature.hpp"

namespace farandole {

/// What members on one host may do with a tensor without asking the leader.
enum class board_use : std::uint8_t {
  none,
  bytes,  ///< small ones are shown there whole
  notice, ///< of any size: shown is where they stand, and callers copy them out of each other's memory
};

struct operation_row {
  farandole::operation id;
  std::string_view name;
  bool reduces;        ///< combines elements: reduce op and scales count, bool is refused
  bool same_shape;     ///< every rank must bring the same shape
  bool has_rows;       ///< takes the first dimension apart, or grows it: scalars are refused
  bool first_dim_free; ///< shapes may differ in their first extent
  bool has_root;       ///< one rank is the source; ranks must agree on it
  bool fusible;        ///< several tensors may share a bundle
  bool cacheable;      ///< gets an id
  board_use on_board;
  bool takes_zeros; ///< goes on while some ranks have joined; the others refuse
};

inline constexpr operation_row operation_table[operation_count] = {
    {operation::allreduce, "allreduce", true, true, false, false, false, true, true, board_use::bytes, true},
    {operation::allgather, "allgather", false, false, true, true, false, true, true, board_use::notice,
     false},
    {operation::broadcast, "broadcast", false, true, false, false, true, false, true, board_use::bytes,
     false},
    {operation::barrier, "barrier", false, true, false, false, false, false, false, board_use::none, true},
    {operation::join, "join", false, false, false, false, false, false, false, board_use::none, true},
    {operation::alltoall, "alltoall", false, false, true, true, false, false, true, board_use::notice, false},
    {operation::reducescatter, "reducescatter", true, true, true, false, false, true, true, board_use::none,
     false},
};

constexpr const operation_row& row_of(operation id) {
  return operation_table[static_cast<std::size_t>(id)];
}

} // namespace farandole
