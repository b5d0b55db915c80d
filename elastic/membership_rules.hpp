// The number of members of a job, as requested by its user.
#pragma once

#include <cstdint>

namespace farandole {

struct membership_rules {
  std::int32_t size = 1; ///< number of members with which the job starts
  bool elastic = false;
  std::int32_t minimum = 1; ///< elastic: minimum of later generations
  std::int32_t limit = 1;   ///< elastic: maximum of any generation
  /// Elastic: the processes serve calls of the program that has called the launcher. Each generation has all processes
  /// that were started and have not ended, and may consist of new ones only: that program knows their contents.
  bool serves_calls = false;
};

} // namespace farandole
