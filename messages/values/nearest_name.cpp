#include "messages/values/nearest_name.hpp"

#include <algorithm>
#include <vector>

namespace farandole {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the usual table: distances between prefixes of `a` and all prefixes of `b`.
  std::vector<std::size_t> before_previous(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j)
    current[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_previous.swap(previous);
    previous.swap(current);
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        current[j] = std::min(current[j], before_previous[j - 2] + 1);
    }
  }
  return current[b.size()];
}

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates) {
  constexpr std::size_t longest = 200; // of a name worth comparing: the cost is quadratic
  if (name.size() > longest)
    return {};
  std::string_view nearest;
  std::size_t minimum = std::max<std::size_t>(1, name.size() * 2 / 5) + 1;
  for (const auto candidate : candidates)
    if (const auto distance = edit_distance(name, candidate); distance < minimum) {
      nearest = candidate;
      minimum = distance;
    }
  return nearest;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates) {
  const auto nearest = nearest_name(name, candidates);
  return nearest.empty() ? std::string() : "; did you mean '" + std::string(nearest) + "'?";
}

} // namespace farandole
