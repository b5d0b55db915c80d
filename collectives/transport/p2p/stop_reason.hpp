// The reason why a wait must end for the caller, with the error text that all paths with messages use.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "collectives/transport/path.hpp"

namespace farandole {

/// Kind none: the wait may continue. `limit`: when it ends, which is later than the deadline if there was progress.
/// `awaited` names the awaited member, if the path knows it.
error stop_reason(std::string_view path, const deadline_and_abort& deadline,
                  std::chrono::steady_clock::time_point limit, const std::string& awaited = {});

} // namespace farandole
