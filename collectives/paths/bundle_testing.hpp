// Bundles of bytes for tests of how operations fail: no test looks at the result.
#pragma once

#include "collectives/paths/path.hpp"
#include "collectives/paths/paths_testing.hpp"

namespace farandole::testing {

/// One operation of `members`, on `count` elements for each of them.
struct bundle_of {
  bytes input, output;
  work bundle;

  explicit bundle_of(operation what, std::size_t count, std::size_t members = 2, dtype type = dtype::uint8,
                     reduce_op how = reduce_op::sum) {
    const bool in_rows = what == operation::alltoall || what == operation::reducescatter;
    const std::size_t row = count * size_of(type);
    input.assign(in_rows ? members * row : row, std::byte{1});
    output.assign(what == operation::allgather || what == operation::alltoall ? members * row : input.size(),
                  {});
    bundle.operation = what;
    bundle.reduce_op = how;
    bundle.dtype = type;
    bundle.root = what == operation::broadcast ? 0 : -1;
    if (what == operation::allgather)
      bundle.gathered.assign(members, row);
    if (in_rows)
      bundle.sent.assign(members, row);
    if (what == operation::alltoall)
      bundle.received.assign(members, row);
    bundle.longest = row;
    if (what != operation::barrier)
      bundle.parts.push_back({input.data(), output.data(), input.size(), {}});
  }
};

} // namespace farandole::testing
