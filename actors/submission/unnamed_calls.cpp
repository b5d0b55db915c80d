#include "actors/submission/unnamed_calls.hpp"

namespace farandole {

std::string unnamed_calls::next_name(std::uint32_t set, std::string_view prefix, const call_epoch& current) {
  auto& entry = sets_[set];
  if (!(entry.epoch == current))
    entry = {current, {}};
  const auto found = entry.by_prefix.find(prefix);
  std::string name(prefix);
  name += ".noname.";
  if (current.joins > 0)
    name += std::to_string(current.joins) + ".";
  return name += std::to_string(found == entry.by_prefix.end() ? 0 : found->second);
}

void unnamed_calls::accepted(std::uint32_t set, std::string_view prefix) {
  auto& counts = sets_[set].by_prefix;
  const auto entry = counts.find(prefix);
  if (entry == counts.end())
    counts.emplace(prefix, 1);
  else
    ++entry->second;
}

} // namespace farandole
