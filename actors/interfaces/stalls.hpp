// The list of stalled tensors, as the actors of a process set report it to the stall watch.
#pragma once

#include <caf/all.hpp>

#include <vector>

#include "collectives/negotiation/stall.hpp"

namespace farandole {

struct stall_list {
  std::vector<stall> stalls; ///< oldest first
};

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::stall_list)
