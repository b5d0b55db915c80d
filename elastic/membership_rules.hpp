// The number of members of a job, as requested by its user.
#pragma once

#include <cstdint>

namespace farandole {

struct membership_rules {
  std::int32_t size = 1; ///< number of members with which the job starts
  bool elastic = false;
  std::int32_t minimum = 1; ///< elastic: minimum of later generations
  std::int32_t limit = 1;   ///< elastic: maximum of any generation
};

} // namespace farandole
