#include "elastic/ranking.hpp"

#include <algorithm>
#include <tuple>

namespace farandole {

std::vector<member> ranked(std::vector<candidate> candidates, std::size_t limit) {
  std::sort(candidates.begin(), candidates.end(), [](const candidate& a, const candidate& b) {
    return std::tuple(a.last_rank < 0, a.last_rank, b.hello_message->state_generation, a.slot) <
           std::tuple(b.last_rank < 0, b.last_rank, a.hello_message->state_generation, b.slot);
  });
  candidates.resize(std::min(limit, candidates.size()));
  std::vector<member> all;
  all.reserve(candidates.size());
  for (const auto& choice : candidates) {
    member member_info;
    member_info.rank = static_cast<std::int32_t>(all.size());
    member_info.slot = choice.slot;
    member_info.host = choice.hello_message->host;
    member_info.host_name = choice.hello_message->host_name;
    member_info.address = choice.hello_message->address;
    all.push_back(std::move(member_info));
  }
  set_places(all);
  return all;
}

} // namespace farandole
