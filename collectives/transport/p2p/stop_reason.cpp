#include "collectives/transport/p2p/stop_reason.hpp"

namespace farandole {

error stop_reason(std::string_view path, const deadline_and_abort& deadline,
                  std::chrono::steady_clock::time_point limit, const std::string& awaited) {
  if (deadline.abort.raised())
    return {error_kind::disconnected,
            "the operation was aborted: its generation or its process set has ended"};
  if (std::chrono::steady_clock::now() >= limit)
    return {error_kind::timed_out, "the " + std::string{path} + " path waited in vain" +
                                       (awaited.empty() ? "" : " for " + awaited) + ": " +
                                       deadline.deadline_setting + " has passed"};
  return {};
}

} // namespace farandole
