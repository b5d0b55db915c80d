// Opens the path in shared memory. Its members need a segment in common first: the member of rank 0 makes it
// and hands it out, the others take it, and only then is there a local_path.
#pragma once

#include <memory>

#include "collectives/transport/path.hpp"
#include "collectives/transport/shm/shm_fast_path.hpp"
#include "collectives/transport/shm/shm_segment.hpp"

namespace farandole {

struct path_setup;

/// What the members on one host share in memory. The local path fills it as it connects.
struct host_memory {
  std::shared_ptr<farandole::shm_segment> segment;     ///< null: nothing is shared
  std::shared_ptr<farandole::shm_fast_path> fast_path; ///< null: switched off
};

/// Between this member's neighbours in the set; its address is empty but for the first of them.
expected<std::unique_ptr<path>> open_shm_path(const path_setup& setup);

} // namespace farandole
