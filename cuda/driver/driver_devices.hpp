// The devices of this process, with what the rest of `cuda/` needs of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/driver/devices.hpp"
#include "cuda/driver/event_pool.hpp"
#include "cuda/driver/pinned_pool.hpp"
#include "cuda/driver/primary_contexts.hpp"
#include "cuda/driver/progress_words.hpp"
#include "cuda/driver/unfinished_work.hpp"

namespace farandole {

/// Thread-safe.
class driver_devices final : public devices {
public:
  explicit driver_devices(std::shared_ptr<primary_contexts> contexts);

  std::int32_t count() const override { return contexts_->count(); }
  error check(const std::byte* memory, std::size_t bytes, std::int32_t device, known_memory& region) override;
  expected<device_point_ptr> ready_point(const tensor_memory& location) override;
  error wait(std::int32_t device, void* stream, const device_point_ptr& point) override;

  const driver_functions& driver() const { return contexts_->driver(); }
  expected<CUcontext> context(std::int32_t device) { return contexts_->get(device); }
  event_pool& events(std::int32_t device) { return *events_[device]; }
  const std::shared_ptr<progress_words>& words(std::int32_t device) const { return words_[device]; }
  const std::shared_ptr<pinned_pool>& pinned() const { return pinned_; }
  /// Of all streams.
  unfinished_work& unfinished() { return unfinished_; }

  /// There are no other devices.
  static driver_devices& of(devices& all);

private:
  error record(CUcontext context, const tensor_memory& location, CUevent event);
  error check_not_captured(std::int32_t device, CUstream stream);

  std::shared_ptr<primary_contexts> contexts_;
  std::vector<std::shared_ptr<event_pool>> events_; ///< one for each device
  std::shared_ptr<pinned_pool> pinned_;
  std::vector<std::shared_ptr<progress_words>> words_; ///< one for each device
  unfinished_work unfinished_;
};

} // namespace farandole
