#include "actors/door/set_epochs.hpp"

#include <cassert>
#include <utility>

namespace farandole {

void set_epochs::restarted(error why) {
  std::lock_guard guard(mutex_);
  last_ = why;
  untold_.push_back(std::move(why));
  now_.store(now_ + 1, std::memory_order_release);
  assert(untold_.size() == now_ - seen_);
}

void set_epochs::over(error why) {
  std::lock_guard guard(mutex_);
  last_ = std::move(why);
}

error set_epochs::refuse(std::uint64_t epoch) {
  if (seen() == epoch && now() == epoch)
    return {};
  std::lock_guard guard(mutex_);
  if (!untold_.empty()) {
    auto why = untold_.front();
    see(seen_ + 1);
    return why;
  }
  // Another thread has been told, and this one came by the old door.
  return epoch < now_ ? last_ : error{};
}

void set_epochs::told(std::uint64_t epoch) {
  std::lock_guard guard(mutex_);
  // What fails in the epoch that still lasts was no restart.
  if (epoch < now_)
    see(epoch + 1);
}

void set_epochs::see(std::uint64_t epoch) {
  for (; seen_ < epoch; seen_.store(seen_ + 1, std::memory_order_release))
    untold_.pop_front();
}

} // namespace farandole
