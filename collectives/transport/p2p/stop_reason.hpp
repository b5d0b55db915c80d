// Why the caller wants a wait to end, in the words of every path that carries messages.
#pragma once

#include <string>
#include <string_view>

#include "collectives/transport/path.hpp"

namespace farandole {

/// Kind none: the wait may go on. `awaited` names the member that is waited for, if the path knows it.
error stop_reason(std::string_view path, const deadline_and_abort& deadline, const std::string& awaited = {});

} // namespace farandole
