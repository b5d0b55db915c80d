#include "actors/door/unnamed_calls.hpp"

namespace farandole {

std::string unnamed_calls::next_name(std::uint32_t set, std::string_view prefix, const call_epoch& now) {
  auto& here = sets_[set];
  if (!(here.epoch == now))
    here = {now, {}};
  const auto known = here.by_prefix.find(prefix);
  std::string name(prefix);
  name += ".noname.";
  if (now.joins > 0)
    name += std::to_string(now.joins) + ".";
  return name += std::to_string(known == here.by_prefix.end() ? 0 : known->second);
}

void unnamed_calls::accepted(std::uint32_t set, std::string_view prefix) {
  auto& counts = sets_[set].by_prefix;
  const auto known = counts.find(prefix);
  if (known == counts.end())
    counts.emplace(prefix, 1);
  else
    ++known->second;
}

} // namespace farandole
