// What has waited for too long, as the actors of a process set report it.
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
