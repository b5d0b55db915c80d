#include "collectives/negotiation/stall.hpp"

#include <algorithm>
#include <map>

#include "messages/values/printable.hpp"

namespace farandole {

std::string describe(std::span<const stall> stalls, std::chrono::nanoseconds blamed) {
  constexpr std::size_t names_shown = 6;
  struct line {
    std::string names;
    std::size_t count = 0;
  };
  std::map<std::int32_t, line> lines;
  for (const auto& stalled : stalls) {
    const bool mark = blamed.count() > 0 && stalled.waited > blamed;
    for (auto rank : stalled.missing) {
      auto& line = lines[rank];
      ++line.count;
      if (line.count > names_shown)
        continue;
      line.names += (line.count > 1 ? ", " : "") + printable_name(stalled.name) + (mark ? "!" : "");
    }
  }
  std::string text;
  for (const auto& [rank, line] : lines)
    text += (text.empty() ? "" : "\n") + std::to_string(rank) + ": [" + line.names +
            (line.count > names_shown ? ", …]" : "]");
  return text;
}

std::chrono::nanoseconds stall_rules::period(std::chrono::nanoseconds longest) const {
  constexpr std::chrono::milliseconds shortest{50};
  return std::clamp<std::chrono::nanoseconds>(warning / 4, shortest, longest);
}

stall_rules::findings stall_rules::judge(std::span<const stall> stalls,
                                         std::chrono::nanoseconds current_time) {
  if (stalls.empty())
    return {};
  const auto longest =
      std::max_element(stalls.begin(), stalls.end(), [](const stall& stalled, const stall& other) {
        return stalled.waited < other.waited;
      });
  if (shutdown > warning && longest->waited > shutdown)
    return {{},
            "tensors" + set + " wait for ranks that have not submitted them, and " + shutdown_setting +
                " has passed. Missing ranks, with ! at operations that have waited that long:\n" +
                describe(stalls, shutdown)};
  std::vector<std::string> names;
  for (const auto& stalled : stalls)
    names.push_back(stalled.name);
  std::sort(names.begin(), names.end());
  const bool anything_new =
      !std::includes(reported_names_.begin(), reported_names_.end(), names.begin(), names.end());
  if (!anything_new && current_time - last_report_ < warning)
    return {};
  reported_names_ = std::move(names);
  last_report_ = current_time;
  return {"Some ranks have submitted tensors" + set + " that others have not, for longer than " +
              warning_setting +
              ". Either ranks do not submit the same tensors, or one is stuck in something else. Missing "
              "ranks:\n" +
              describe(stalls, shutdown),
          {}};
}

} // namespace farandole
