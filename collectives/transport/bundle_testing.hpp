// Bundles for tests of failing operations. These tests do not check the result.
#pragma once

#include "collectives/transport/path.hpp"
#include "collectives/transport/paths_testing.hpp"

namespace farandole::testing {

/// One operation of `members`, on `count` elements for each of them.
struct bundle_of {
  bytes input, output;
  work bundle;

  explicit bundle_of(operation op, std::size_t count, std::size_t members = 2, dtype type = dtype::uint8,
                     reduce_op reduction = reduce_op::sum) {
    const bool in_rows = op == operation::alltoall || op == operation::reducescatter;
    const std::size_t row = count * size_of(type);
    input.assign(in_rows ? members * row : row, std::byte{1});
    output.assign(op == operation::allgather || op == operation::alltoall ? members * row : input.size(), {});
    bundle.operation = op;
    bundle.reduce_op = reduction;
    bundle.dtype = type;
    bundle.root = op == operation::broadcast ? 0 : -1;
    if (op == operation::allgather)
      bundle.gathered.assign(members, row);
    if (in_rows)
      bundle.sent.assign(members, row);
    if (op == operation::alltoall)
      bundle.received.assign(members, row);
    bundle.longest = row;
    if (op != operation::barrier)
      bundle.parts.push_back({input.data(), output.data(), input.size(), {}});
  }
};

} // namespace farandole::testing
