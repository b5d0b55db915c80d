#include "elastic/ranking.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace farandole {

std::vector<member> ranked(std::vector<candidate> candidates, std::size_t most) {
  std::sort(candidates.begin(), candidates.end(), [](const candidate& a, const candidate& b) {
    return std::tuple(a.last_rank < 0, a.last_rank, a.slot) <
           std::tuple(b.last_rank < 0, b.last_rank, b.slot);
  });
  candidates.resize(std::min(most, candidates.size()));
  std::map<std::string, std::int32_t> on_host;
  std::vector<member> all;
  for (const auto& each : candidates) {
    member one;
    one.rank = static_cast<std::int32_t>(all.size());
    one.slot = each.slot;
    one.host = each.said->host;
    one.host_name = each.said->host_name;
    one.address = each.said->address;
    one.local_rank = on_host[one.host]++;
    all.push_back(std::move(one));
  }
  std::map<std::int32_t, std::int32_t> with_local_rank;
  for (auto& one : all) {
    one.local_size = on_host[one.host];
    one.cross_rank = with_local_rank[one.local_rank]++;
  }
  for (auto& one : all)
    one.cross_size = with_local_rank[one.local_rank];
  return all;
}

} // namespace farandole
