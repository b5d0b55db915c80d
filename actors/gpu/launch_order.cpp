#include "actors/gpu/launch_order.hpp"

#include <algorithm>
#include <chrono>

namespace farandole {

namespace {

constexpr std::chrono::milliseconds look_interval{10};

} // namespace

void launch_order::open(std::uint32_t set) {
  const std::lock_guard lock(mutex_);
  launched_.try_emplace(set, 0);
}

void launch_order::close(std::uint32_t set) {
  {
    const std::lock_guard lock(mutex_);
    launched_.erase(set);
  }
  changed_.notify_all();
}

bool launch_order::has_launched(const std::vector<set_launches>& bundles) const {
  return std::ranges::all_of(bundles, [this](const set_launches& each) {
    const auto found = launched_.find(each.set);
    return found == launched_.end() || found->second >= each.count;
  });
}

error launch_turn::wait(const std::function<error()>& interrupted) const {
  if (!order_)
    return {};
  std::unique_lock lock(order_->mutex_);
  while (!order_->changed_.wait_for(lock, look_interval, [this] { return order_->has_launched(after_); })) {
    lock.unlock();
    if (auto problem = interrupted())
      return problem;
    lock.lock();
  }
  return {};
}

void launch_turn::end() {
  const auto order = std::exchange(order_, nullptr);
  if (!order)
    return;
  {
    const std::lock_guard lock(order->mutex_);
    if (const auto own = order->launched_.find(set_); own != order->launched_.end())
      ++own->second;
  }
  order->changed_.notify_all();
}

} // namespace farandole
