// Which processes of this host listen on the ports of a range; for the error when all are in use.
#pragma once

#include <string>

#include "messages/values/port_range.hpp"

namespace farandole {

/// For example "4000 by python (process 4711), 4001 by another user's process": the first eight, in ascending order.
/// Empty if nothing listens there. Reads /proc, and the files of every process in it; a process that ends meanwhile is
/// left out.
std::string port_holders(const port_range& ports);

} // namespace farandole
