#include "actors/process_set/shared_state.hpp"

#include <algorithm>
#include <utility>

#include "elastic/stuck_rules.hpp"

namespace farandole {

submission_queue::attempt shared_set_state::fail(const error& reason) const {
  if (lane)
    lane->abort(reason);
  return queue ? queue->fail(reason) : submission_queue::attempt::done;
}

void set_table::built(set_ptr set) {
  std::lock_guard lock(guard_);
  built_.push_back(std::move(set));
}

void set_table::open(set_ptr set) {
  std::lock_guard lock(guard_);
  suspended_.erase(set->id);
  open_.insert_or_assign(set->id, std::move(set));
  resumed_.notify_all();
}

void set_table::close(std::uint32_t id) {
  std::lock_guard lock(guard_);
  suspended_.erase(id);
  open_.erase(id);
  resumed_.notify_all();
}

void set_table::suspend(std::uint32_t id) {
  std::lock_guard lock(guard_);
  if (open_.count(id))
    suspended_.insert(id);
}

void set_table::resume() {
  std::lock_guard lock(guard_);
  suspended_.clear();
  resumed_.notify_all();
}

void set_table::patience(std::chrono::nanoseconds longest) {
  std::lock_guard lock(guard_);
  patience_ = longest;
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
  std::unique_lock lock(guard_);
  auto found = open_.find(id);
  // A caller that has not been told of the restart need not wait: its next submission fails with that error.
  if (suspended_.count(id) && found->second->epoch.all_reported()) {
    resumed_.wait_for(lock, patience_, [&] { return !suspended_.count(id); });
    found = open_.find(id);
  }
  return found == open_.end() ? nullptr : found->second;
}

std::uint64_t set_table::epoch_seen(std::uint32_t id) const {
  std::lock_guard lock(guard_);
  auto found = open_.find(id);
  return found == open_.end() || !found->second->epoch.epochs ? 0 : found->second->epoch.epochs->seen();
}

bool set_table::acknowledge(std::uint32_t id, std::uint64_t epoch) {
  std::unique_lock lock(guard_);
  std::shared_ptr<set_epochs> epochs;
  auto begun = [&] {
    const auto found = open_.find(id);
    epochs = found == open_.end() ? nullptr : found->second->epoch.epochs;
    return !epochs || epochs->now() >= epoch;
  };
  if (!resumed_.wait_for(lock, patience_, begun) || !epochs)
    return false;
  if (epoch > 0)
    epochs->reported(epoch - 1);
  return true;
}

std::map<std::uint32_t, std::uint64_t> set_table::submitted() const {
  std::lock_guard lock(guard_);
  std::map<std::uint32_t, std::uint64_t> counts;
  for (auto& [id, set] : open_)
    if (set->queue)
      counts.emplace(id, set->queue->submitted());
  return counts;
}

std::map<std::uint32_t, std::vector<std::int32_t>> set_table::ranks() const {
  std::lock_guard lock(guard_);
  std::map<std::uint32_t, std::vector<std::int32_t>> all;
  for (auto& [id, set] : open_)
    all.emplace(id, set->ranks);
  return all;
}

// Without the lock: a callback may look for a set.
submission_queue::attempt set_table::fail(const error& reason) {
  resume();
  std::vector<set_ptr> all;
  {
    std::lock_guard lock(guard_);
    all = built_;
    for (const auto& [id, set] : open_)
      if (set->epoch.epochs)
        set->epoch.epochs->over(reason);
  }
  auto result = submission_queue::attempt::done;
  for (const auto& set : all)
    if (set->fail(reason) == submission_queue::attempt::busy)
      result = submission_queue::attempt::busy;
  return result;
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
    suspended_.clear();
    resumed_.notify_all();
  }
  for (auto& set : all) {
    if (set->queue)
      set->queue->close();
    if (set->lane)
      set->lane->stop();
  }
  reap();
}

std::string generation_facts::name_of(std::int32_t number) const {
  if (number < 0 || number >= static_cast<std::int32_t>(members.size()))
    return "a member";
  return "rank " + std::to_string(number) + " on " + members[static_cast<std::size_t>(number)].host_name;
}

void membership_changes::set(std::uint64_t count, bool removals_only) {
  std::lock_guard lock(mutex_);
  word_ = 2 * count + (removals_only ? 1 : 0);
  came_.notify_all();
}

void membership_changes::await(std::chrono::nanoseconds longest) {
  std::unique_lock lock(mutex_);
  came_.wait_for(lock, longest, [this] { return word_ != 0; });
}

std::string shared_member_state::silence_notice(const std::set<std::int32_t>& ranks) const {
  std::string text;
  for (const auto& silent_member : silent.get())
    if (ranks.contains(silent_member.rank))
      text += "; " + name_of(silent_member.rank) + " " + stuck_rules::complaint(silent_member);
  return text;
}

} // namespace farandole
