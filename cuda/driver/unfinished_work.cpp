#include "cuda/driver/unfinished_work.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace farandole {

unfinished_work::~unfinished_work() {
  release_ended();
  if (entries_.empty())
    return;
  // Reachable until the process ends, so that a leak checker does not report it.
  static auto& forever = *new unfinished_work;
  forever.take_over(*this);
}

void unfinished_work::add(entry work) {
  const std::lock_guard lock(mutex_);
  entries_.push_back(std::move(work));
}

void unfinished_work::release_ended() {
  std::vector<entry> ended; // released without the lock: a last reference may call the driver
  const std::lock_guard lock(mutex_);
  const auto first = std::stable_partition(entries_.begin(), entries_.end(),
                                           [](const entry& work) { return !work.progress.ended(); });
  ended.assign(std::make_move_iterator(first), std::make_move_iterator(entries_.end()));
  entries_.erase(first, entries_.end());
}

void unfinished_work::take_over(unfinished_work& other) {
  const std::scoped_lock lock(mutex_, other.mutex_);
  std::ranges::move(other.entries_, std::back_inserter(entries_));
  other.entries_.clear();
}

} // namespace farandole
