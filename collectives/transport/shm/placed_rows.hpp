// Allgather and alltoall in which each member writes its rows directly into the results of the other members
// (shared_result_heap.hpp).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/transport/shm/shm_collective.hpp"

namespace farandole {

/// One copy into memory that its owner has published for this round. A member that was stopped may copy
/// late, so the owner must not reuse the memory before all members have published that they are done.
struct placed_copy {
  const std::byte* from;
  std::byte* to;
  std::size_t bytes;
};

std::unique_ptr<shm_collective> make_placed_rows(const shm_job& job, std::vector<placed_copy> copies);

} // namespace farandole
