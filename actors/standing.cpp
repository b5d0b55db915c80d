#include "actors/standing.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

void set_table::built(set_ptr set) {
  std::lock_guard lock(guard_);
  built_.push_back(std::move(set));
}

void set_table::open(set_ptr set) {
  std::lock_guard lock(guard_);
  open_.insert_or_assign(set->id, std::move(set));
}

void set_table::close(std::uint32_t id) {
  std::lock_guard lock(guard_);
  open_.erase(id);
}

void set_table::retire(const set_ptr& set) {
  if (set->lane)
    set->lane->finish();
  std::lock_guard lock(guard_);
  if (auto found = std::find(built_.begin(), built_.end(), set); found != built_.end()) {
    built_.erase(found);
    retired_.push_back(set);
  }
}

set_table::set_ptr set_table::find(std::uint32_t id) const {
  std::lock_guard lock(guard_);
  auto found = open_.find(id);
  return found == open_.end() ? nullptr : found->second;
}

std::map<std::uint32_t, std::vector<std::int32_t>> set_table::ranks() const {
  std::lock_guard lock(guard_);
  std::map<std::uint32_t, std::vector<std::int32_t>> all;
  for (auto& [id, set] : open_)
    all.emplace(id, set->ranks);
  return all;
}

void set_table::reap() {
  std::vector<set_ptr> done;
  {
    std::lock_guard lock(guard_);
    done.swap(retired_);
  }
  for (auto& set : done)
    if (set->lane)
      set->lane->stop();
}

void set_table::shut() {
  std::vector<set_ptr> all;
  {
    std::lock_guard lock(guard_);
    all.swap(built_);
    open_.clear();
  }
  for (auto& set : all) {
    if (set->door)
      set->door->close();
    if (set->lane)
      set->lane->stop();
  }
  reap();
}

} // namespace farandole
