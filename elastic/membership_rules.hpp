// How many members a job has, as its user asked for them.
#pragma once

#include <cstdint>

namespace farandole {

struct membership_rules {
  std::int32_t size = 1; ///< with so many it starts
  bool elastic = false;
  std::int32_t minimum = 1; ///< elastic: no later generation has fewer
  std::int32_t limit = 1;   ///< elastic: none has more
};

} // namespace farandole
