#include "collectives/plan/stall.hpp"

#include <map>

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
      line.names += (line.count > 1 ? ", " : "") + stalled.name + (mark ? "!" : "");
    }
  }
  std::string text;
  for (const auto& [rank, line] : lines)
    text += (text.empty() ? "" : "\n") + std::to_string(rank) + ": [" + line.names +
            (line.count > names_shown ? ", …]" : "]");
  return text;
}

} // namespace farandole
