// Bundles of bytes for tests of how operations fail: no test looks at the result.
#pragma once

#include "collectives/paths/path.hpp"
#include "collectives/paths/paths_testing.hpp"

namespace farandole::testing {

/// One operation of two members, on `count` bytes for each of them.
struct bundle_of {
  bytes input, output;
  work bundle;

  bundle_of(operation what, std::size_t count) {
    const bool in_rows = what == operation::alltoall || what == operation::reducescatter;
    input.assign(in_rows ? 2 * count : count, std::byte{1});
    output.assign(what == operation::allgather || what == operation::alltoall ? 2 * count : input.size(), {});
    bundle.operation = what;
    bundle.dtype = dtype::uint8;
    bundle.root = what == operation::broadcast ? 0 : -1;
    if (what == operation::allgather)
      bundle.gathered = {count, count};
    if (in_rows)
      bundle.sent = {count, count};
    if (what == operation::alltoall)
      bundle.received = {count, count};
    bundle.longest = count;
    if (what != operation::barrier)
      bundle.parts.push_back({input.data(), output.data(), input.size(), {}});
  }
};

} // namespace farandole::testing
