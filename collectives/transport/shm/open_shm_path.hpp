// Opens the shared-memory path. To connect, the first member of the host creates the shared segment and
// passes its descriptor to the other members, which adopt it; then each member creates its shm_path.
#pragma once

#include <memory>

#include "collectives/transport/path.hpp"
#include "collectives/transport/shm/shm_fast_path.hpp"
#include "collectives/transport/shm/shm_segment.hpp"

namespace farandole {

struct path_setup;

/// The memory that the members of one host share. The path fills it while it connects.
struct host_memory {
  std::shared_ptr<farandole::shm_segment> segment;     ///< null: no memory is shared
  std::shared_ptr<farandole::shm_fast_path> fast_path; ///< null: the fast path is disabled
};

/// Opens the path between the members of the set on this host. Only the first of them has a non-empty
/// address.
expected<std::unique_ptr<path>> open_shm_path(const path_setup& setup);

} // namespace farandole
