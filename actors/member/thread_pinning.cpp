#include "actors/member/thread_pinning.hpp"

#include <string>

#include "collectives/transport/connections/sockets.hpp"
#include "collectives/transport/wait/cpu_affinity.hpp"
#include "elastic/thread_affinity.hpp"

namespace farandole {

namespace {

/// Returns the core.
expected<int> pin(const settings& values, const member& self) {
  auto core = choose_core(values, self, cpu_affinity::of_process().cores());
  if (!core)
    return core;
  if (const int problem = cpu_affinity::of_core(*core).apply(); problem != 0)
    return error{error_kind::unknown, values.cited(setting::thread_affinity) +
                                          " cannot be applied, so no thread of local rank " +
                                          std::to_string(self.local_rank) + " on " + self.host_name +
                                          " is pinned to core " + std::to_string(*core) + ": " +
                                          text_of_errno(problem) + "; allow sched_setaffinity, or unset it"};
  return core;
}

} // namespace

void pin_calling_thread(const settings& values, const member& self, logger* log) {
  if (values.text(setting::thread_affinity).empty())
    return;
  const auto core = pin(values, self);
  if (log == nullptr)
    return;
  if (core)
    log->debug("pinned the event loop and the lanes of local rank " + std::to_string(self.local_rank) +
               " to core " + std::to_string(*core));
  else
    log->error(core.error().text);
}

} // namespace farandole
