#include "elastic/ranking.hpp"

#include <algorithm>
#include <tuple>

namespace farandole {

std::vector<member> ranked(std::vector<candidate> candidates, std::size_t most) {
  std::sort(candidates.begin(), candidates.end(), [](const candidate& a, const candidate& b) {
    return std::tuple(a.last_rank < 0, a.last_rank, b.said->state_generation, a.slot) <
           std::tuple(b.last_rank < 0, b.last_rank, a.said->state_generation, b.slot);
  });
  candidates.resize(std::min(most, candidates.size()));
  std::vector<member> all;
  all.reserve(candidates.size());
  for (const auto& each : candidates) {
    member one;
    one.rank = static_cast<std::int32_t>(all.size());
    one.slot = each.slot;
    one.host = each.said->host;
    one.host_name = each.said->host_name;
    one.address = each.said->address;
    all.push_back(std::move(one));
  }
  set_places(all);
  return all;
}

} // namespace farandole
