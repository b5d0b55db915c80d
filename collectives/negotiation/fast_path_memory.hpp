// Divides the shared memory of the fast path on one host: a quarter is for the cells of known tensors, which are
// allocated once, and the rest is for staging tensors while a collective runs. Both are bounded for the host, not
// for each member, so each member has less if there are many.
#pragma once

#include <algorithm>
#include <cstddef>

namespace farandole {

/// The sizes for each member, in whole pages.
struct fast_path_memory {
  std::size_t cells_bytes = 0;
  std::size_t staging_bytes = 0; ///< 0: not enough for a collective of so many members

  /// `total_bytes`: for all members of the set on the host together.
  static fast_path_memory of(std::size_t total_bytes, std::size_t members) {
    constexpr std::size_t page = 4096;
    constexpr std::size_t least_cells = 4 * page;
    // A slot has one cache line for each member; four collectives of four slots each are in progress at a time.
    const std::size_t least_staging = 16 * 64 * members;
    const auto member_bytes = total_bytes / std::max<std::size_t>(members, 1) / page * page;
    fast_path_memory memory;
    memory.cells_bytes = std::max(member_bytes / 4 / page * page, least_cells);
    const auto rest = member_bytes > memory.cells_bytes ? member_bytes - memory.cells_bytes : 0;
    memory.staging_bytes = rest >= least_staging ? rest : 0;
    return memory;
  }
};

} // namespace farandole
