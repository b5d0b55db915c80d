#include "tools/farandole/worker_threads.hpp"

#include <algorithm>
#include <cmath>

#include "collectives/transport/wait/core_placement.hpp"

namespace farandole {

std::int32_t whole_usable_cores() {
  return static_cast<std::int32_t>(std::ceil(usable_cores()));
}

std::int32_t threads_of_each(std::int32_t cores, std::int32_t workers) {
  return std::max(1, cores / std::max(1, workers));
}

std::string crowding_notice(std::int32_t cores, std::int32_t workers, bool threads_are_set) {
  if (threads_are_set || workers <= cores)
    return {};
  return std::to_string(workers) + " workers share " + std::to_string(cores) +
         (cores == 1 ? " core" : " cores") +
         ", and OMP_NUM_THREADS is not set, so each may start a thread for every core. Set "
         "OMP_NUM_THREADS=1, or "
         "let --set-omp-num-threads do it.";
}

} // namespace farandole
