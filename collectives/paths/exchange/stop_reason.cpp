#include "collectives/paths/exchange/stop_reason.hpp"

namespace farandole {

error stop_reason(std::string_view path, const limits& until, const std::string& awaited) {
  if (until.abort.raised())
    return {error_kind::disconnected,
            "the operation was aborted: its generation or its process set has ended"};
  if (std::chrono::steady_clock::now() >= until.deadline)
    return {error_kind::timed_out, "the " + std::string{path} + " path waited in vain" +
                                       (awaited.empty() ? "" : " for " + awaited) + ": " +
                                       until.deadline_setting + " has passed"};
  return {};
}

} // namespace farandole
