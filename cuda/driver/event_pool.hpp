// The events of one device. An event marks a point in the work of a stream; the driver takes microseconds to make one,
// so they are used again. The points that hold events may outlive everything else but the driver.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/driver/primary_contexts.hpp"
#include "messages/values/device.hpp"
#include "messages/values/error.hpp"

namespace farandole {

class event_pool;

/// A point whose event goes back to its pool. Streams that wait for it are not
/// affected: they wait for its last record before their wait was submitted.
class event_point final : public device_point {
public:
  event_point(std::shared_ptr<event_pool> pool, CUevent event) : pool_(std::move(pool)), event_(event) {}
  event_point(const event_point&) = delete;
  event_point& operator=(const event_point&) = delete;
  ~event_point() override;

  CUevent event() const { return event_; }
  /// The event of any point: there are no others.
  static CUevent of(const device_point& point);

private:
  std::shared_ptr<event_pool> pool_;
  CUevent event_;
};

/// Thread-safe.
class event_pool : public std::enable_shared_from_this<event_pool> {
public:
  event_pool(std::shared_ptr<primary_contexts> contexts, std::int32_t device)
      : contexts_(std::move(contexts)), device_(device) {}
  event_pool(const event_pool&) = delete;
  event_pool& operator=(const event_pool&) = delete;
  ~event_pool();

  /// An event that has recorded nothing yet. The device's context has to be current.
  expected<std::shared_ptr<event_point>> take();

private:
  friend class event_point;
  void give_back(CUevent event);

  std::shared_ptr<primary_contexts> contexts_;
  std::int32_t device_;
  std::mutex mutex_;
  std::vector<CUevent> unused_;
};

} // namespace farandole
