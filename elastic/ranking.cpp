#include "elastic/ranking.hpp"

#include <algorithm>
#include <tuple>

namespace farandole {

std::vector<member> ranked(std::vector<candidate> candidates, std::size_t limit) {
  std::sort(candidates.begin(), candidates.end(), [](const candidate& a, const candidate& b) {
    return std::tuple(a.last_rank < 0, a.last_rank, b.said->state_generation, a.slot) <
           std::tuple(b.last_rank < 0, b.last_rank, a.said->state_generation, b.slot);
  });
  candidates.resize(std::min(limit, candidates.size()));
  std::vector<member> all;
  all.reserve(candidates.size());
  for (const auto& choice : candidates) {
    member member_info;
    member_info.rank = static_cast<std::int32_t>(all.size());
    member_info.slot = choice.slot;
    member_info.host = choice.said->host;
    member_info.host_name = choice.said->host_name;
    member_info.address = choice.said->address;
    all.push_back(std::move(member_info));
  }
  set_places(all);
  return all;
}

} // namespace farandole
