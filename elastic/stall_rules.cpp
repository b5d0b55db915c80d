#include "elastic/stall_rules.hpp"

#include <algorithm>
#include <vector>

#include "elastic/stall_text.hpp"
#include "messages/settings/settings.hpp"

namespace farandole {

stall_rules stall_rules::of(const settings& values) {
  stall_rules rules;
  rules.warning = values.duration(setting::stall_warning_time);
  rules.shutdown = values.duration(setting::stall_shutdown_time);
  rules.warning_setting = values.cited(setting::stall_warning_time);
  rules.shutdown_setting = values.cited(setting::stall_shutdown_time);
  return rules;
}

// While nothing is late, a quarter of the warning time suffices to find a tensor between the notice time and the warning
// time. While something is late, its end must be found soon, and its limits exactly.
std::chrono::nanoseconds stall_rules::next_look(std::chrono::nanoseconds longest) const {
  using namespace std::chrono_literals;
  const auto quiet = std::clamp<std::chrono::nanoseconds>(warning / 4, 50ms, 15s);
  if (longest <= notice_time())
    return quiet;
  auto next = std::min<std::chrono::nanoseconds>(quiet, 500ms);
  for (const auto limit : {warning, effective_shutdown()})
    if (longest <= limit)
      next = std::min<std::chrono::nanoseconds>(next, limit - longest + 1ms);
  return next;
}

std::string stall_rules::shutdown_complaint(std::span<const stalled_tensor> stalls,
                                            const std::string& set) const {
  const auto limit = effective_shutdown();
  std::vector<stalled_tensor> late;
  for (const auto& tensor : stalls)
    if (tensor.waited > warning)
      late.push_back(tensor);
  if (limit.count() == 0 ||
      std::ranges::none_of(late, [&](const auto& tensor) { return tensor.waited > limit; }))
    return {};
  return "tensors" + set + " wait for ranks that have not submitted them, and " + shutdown_setting +
         " has passed. Missing ranks, with ! at operations that have waited that long:\n" +
         describe(late, limit);
}

} // namespace farandole
