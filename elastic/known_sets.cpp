#include "elastic/known_sets.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

void known_sets::begin(std::vector<kept_set> sets) {
  std::lock_guard lock(mutex_);
  sets_ = std::move(sets);
}

void known_sets::added(std::uint64_t generation, std::uint32_t id, std::vector<std::int32_t> ranks) {
  std::lock_guard lock(mutex_);
  const auto position = std::find_if(sets_.begin(), sets_.end(), [id](auto& entry) { return entry.id > id; });
  sets_.insert(position, {{generation, false, ++changes_}, id, std::move(ranks)});
}

void known_sets::removed(std::uint32_t id) {
  std::lock_guard lock(mutex_);
  ++changes_;
  std::erase_if(sets_, [id](auto& entry) { return entry.id == id; });
}

std::vector<kept_set> known_sets::to_keep(const std::vector<member>& members) const {
  std::lock_guard lock(mutex_);
  auto sets = sets_;
  for (auto& set : sets) {
    for (auto& number : set.members)
      number = members[static_cast<std::size_t>(number)].slot;
    std::sort(set.members.begin(), set.members.end());
    if (set.origin.by_rule)
      set.members.clear();
  }
  return sets;
}

} // namespace farandole
