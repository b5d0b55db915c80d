// Opens the path in shared memory. Its members need a window in common first: the member of rank 0 makes it
// and hands it out, the others take it, and only then is there a local_path.
#pragma once

#include <memory>

#include "collectives/paths/local/board.hpp"
#include "collectives/paths/local/window.hpp"
#include "collectives/paths/path.hpp"

namespace farandole {

struct path_setup;

/// What the members on one host share in memory. The local path fills it as it connects.
struct host_memory {
  std::shared_ptr<farandole::window> window; ///< null: nothing is shared
  std::shared_ptr<farandole::board> board;   ///< null: switched off
};

/// Between this member's neighbours in the set; its address is empty but for the first of them.
expected<std::unique_ptr<path>> open_local(const path_setup& setup);

} // namespace farandole
