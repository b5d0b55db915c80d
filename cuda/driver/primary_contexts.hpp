// The primary contexts of the devices, which a process shares with its frameworks. A context is retained when a device
// is used for the first time, since it takes hundreds of megabytes of the device's memory unless a framework has it
// already.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "cuda/driver/driver_functions.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Thread-safe. Everything that calls the driver for a device shares this object, so that the contexts outlive it.
class primary_contexts {
public:
  primary_contexts(driver_functions driver, std::int32_t count)
      : driver_(std::move(driver)), contexts_(count) {}
  primary_contexts(const primary_contexts&) = delete;
  primary_contexts& operator=(const primary_contexts&) = delete;
  ~primary_contexts();

  const driver_functions& driver() const { return driver_; }
  std::int32_t count() const { return static_cast<std::int32_t>(contexts_.size()); }

  /// The context of a device. `invalid_argument` if the process has no such device.
  expected<CUcontext> get(std::int32_t device);

private:
  const driver_functions driver_;
  std::mutex mutex_;
  std::vector<CUcontext> contexts_; ///< null: not retained yet
};

/// Makes a context current in this thread for the duration of a block. Meanwhile, the thread may make calls that are
/// forbidden while another thread captures a stream, such as allocations: they have nothing to do with its capture.
class current_context {
public:
  current_context(const driver_functions& driver, CUcontext context);
  current_context(const current_context&) = delete;
  current_context& operator=(const current_context&) = delete;
  ~current_context();

  /// Not CUDA_SUCCESS if it could not be made current.
  CUresult result() const { return result_; }

private:
  const driver_functions& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED; ///< afterwards
  CUresult result_;
};

} // namespace farandole
