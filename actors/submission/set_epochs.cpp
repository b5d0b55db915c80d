#include "actors/submission/set_epochs.hpp"

#include <cassert>
#include <utility>

namespace farandole {

void set_epochs::restarted(error reason) {
  std::lock_guard guard(mutex_);
  last_ = reason;
  unreported_.push_back(std::move(reason));
  current_.store(current_ + 1, std::memory_order_release);
  assert(unreported_.size() == current_ - number_);
}

void set_epochs::over(error reason) {
  std::lock_guard guard(mutex_);
  last_ = std::move(reason);
}

error set_epochs::refuse(std::uint64_t epoch) {
  if (seen() == epoch && now() == epoch)
    return {};
  std::lock_guard guard(mutex_);
  if (!unreported_.empty()) {
    auto reason = unreported_.front();
    see(number_ + 1);
    return reason;
  }
  // Another thread has been told of the restart, and this one still uses the queue of the old epoch.
  return epoch < current_ ? last_ : error{};
}

void set_epochs::reported(std::uint64_t epoch) {
  std::lock_guard guard(mutex_);
  // A failure in the current epoch was not caused by a restart.
  if (epoch < current_)
    see(epoch + 1);
}

void set_epochs::see(std::uint64_t epoch) {
  for (; number_ < epoch; number_.store(number_ + 1, std::memory_order_release))
    unreported_.pop_front();
}

} // namespace farandole
