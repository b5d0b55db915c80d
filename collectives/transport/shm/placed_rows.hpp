// Rows that members write into each other's results (result heap.hpp).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/transport/shm/shm_collective.hpp"

namespace farandole {

/// Into a place that its owner has shown for this round. A member that was stopped may copy late: the owner
/// gives the place to no other result before all members have said that they are done.
struct placed_copy {
  const std::byte* from;
  std::byte* to;
  std::size_t bytes;
};

std::unique_ptr<shm_collective> make_placed_rows(const shm_job& job, std::vector<placed_copy> copies);

} // namespace farandole
