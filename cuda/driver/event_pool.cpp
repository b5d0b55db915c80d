#include "cuda/driver/event_pool.hpp"

#include <cassert>

namespace farandole {

event_point::~event_point() {
  pool_->give_back(event_);
}

CUevent event_point::of(const device_point& point) {
  const auto* events = dynamic_cast<const event_point*>(&point);
  assert(events != nullptr);
  return events->event();
}

event_pool::~event_pool() {
  for (auto* event : unused_)
    contexts_->driver().event_destroy(event);
}

expected<std::shared_ptr<event_point>> event_pool::take() {
  CUevent event = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!unused_.empty()) {
      event = unused_.back();
      unused_.pop_back();
    }
  }
  if (event == nullptr)
    if (const auto result = contexts_->driver().event_create(&event, CU_EVENT_DISABLE_TIMING);
        result != CUDA_SUCCESS)
      return device_failure(contexts_->driver(), device_, "cuEventCreate", result);
  return std::make_shared<event_point>(shared_from_this(), event);
}

void event_pool::give_back(CUevent event) {
  const std::lock_guard lock(mutex_);
  unused_.push_back(event);
}

} // namespace farandole
