#include "cuda/driver/progress_words.hpp"

#include <new>

#include "messages/values/device.hpp"

namespace farandole {

static_assert(sizeof(progress_words::word) == sizeof(std::uint32_t) &&
              progress_words::word::is_always_lock_free);

expected<std::shared_ptr<progress_words::word>> progress_words::take() {
  const std::lock_guard lock(mutex_);
  if (unused_.empty())
    if (auto problem = add_block())
      return problem;
  auto* taken = unused_.back();
  unused_.pop_back();
  taken->store(device_progress::none, std::memory_order_relaxed); // the driver's next call orders it
  return std::shared_ptr<word>(taken, [self = shared_from_this(), taken](word*) {
    const std::lock_guard lock(self->mutex_);
    self->unused_.push_back(taken);
  });
}

error progress_words::add_block() {
  auto block = pinned_->take(1, device_);
  if (!block)
    return block.error();
  const auto bytes = (*block)->bytes();
  for (std::size_t offset = 0; offset < bytes.size(); offset += word_bytes)
    unused_.push_back(new (bytes.data() + offset) word(device_progress::none));
  blocks_.push_back(std::move(*block));
  return {};
}

} // namespace farandole
