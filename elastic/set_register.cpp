#include "elastic/set_register.hpp"

#include <algorithm>
#include <iterator>
#include <map>

namespace farandole {

namespace {

std::vector<std::int32_t> common(const std::vector<std::int32_t>& left,
                                 const std::vector<std::int32_t>& right) {
  std::vector<std::int32_t> both;
  std::set_intersection(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(both));
  return both;
}

// Reduces `sets` to the sets and members that this survivor reported too.
void keep_what_is_in(const std::vector<kept_set>& hello_message, std::vector<kept_set>& sets) {
  std::map<set_origin, const kept_set*> theirs;
  for (auto& set : hello_message)
    theirs.emplace(set.origin, &set);
  std::erase_if(sets, [&](kept_set& set) {
    const auto found = theirs.find(set.origin);
    if (found == theirs.end())
      return true;
    set.members = common(set.members, found->second->members);
    return false;
  });
}

} // namespace

surviving_sets surviving(const std::vector<survivor>& survivors) {
  surviving_sets result;
  std::map<std::int32_t, std::int32_t> rank_of;
  for (auto& survivor : survivors) {
    result.kept = result.kept || survivor.hello_message->keeps_sets;
    rank_of.emplace(survivor.slot, survivor.rank);
  }
  if (!result.kept)
    return result;
  result.sets = survivors.front().hello_message->sets;
  for (auto& survivor : survivors)
    keep_what_is_in(survivor.hello_message->sets, result.sets);
  for (auto& set : result.sets) {
    std::vector<std::int32_t> ranks;
    for (auto slot : set.members)
      if (const auto found = rank_of.find(slot); found != rank_of.end())
        ranks.push_back(found->second);
    std::sort(ranks.begin(), ranks.end());
    set.members = std::move(ranks);
  }
  std::erase_if(result.sets, [](auto& entry) { return entry.members.empty() && !entry.origin.by_rule; });
  return result;
}

} // namespace farandole
