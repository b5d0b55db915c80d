// A stream of Farandole's own on a device, and how the device is given work on it: behind points of other streams, between
// two values of a progress word, and with a point at its end. All work of Farandole on devices goes this way.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cuda/driver/driver_devices.hpp"
#include "messages/values/device.hpp"

namespace farandole {

/// For one thread at a time.
class device_stream {
public:
  static expected<std::unique_ptr<device_stream>> open(std::shared_ptr<devices> owner, std::int32_t device);
  device_stream(std::shared_ptr<devices> owner, std::int32_t device, CUcontext context, CUstream stream);
  device_stream(const device_stream&) = delete;
  device_stream& operator=(const device_stream&) = delete;
  /// Does not wait for the work, whose memory is kept until it has ended.
  ~device_stream();

  struct submitted {
    error problem = {};
    bool unfinished =
        false; ///< more work may come later: the launch is not ended on the stream, but by its owner
  };
  /// Submits work to the stream, with the device's context current. Returns the first error of a call. `word`: of the launch.
  using submission =
      std::function<submitted(CUstream stream, const std::shared_ptr<progress_words::word>& word)>;

  /// Makes the device wait for the points `after`, write `begun`, do the submitted work and write `ended`. `uses`: kept
  /// until then, also if a call fails in the middle: the device may then do a part of the work, see progress().
  expected<device_work> launch(std::span<const device_point_ptr> after,
                               std::vector<std::shared_ptr<const void>> uses, const submission& submit);

  /// Of all work so far, since work of one stream is done in order.
  device_progress progress() const { return last_; }
  /// The error with which the device has failed, if so.
  error failure() const;

  driver_devices& owner() const { return devices_; }
  std::int32_t device() const { return device_; }
  CUcontext context() const { return context_; }
  /// Kind `none` for CUDA_SUCCESS.
  error result_of(const char* function, CUresult result) const;

private:
  error wait(std::span<const device_point_ptr> points);
  error write(const progress_words::word& word, std::uint32_t value);

  std::shared_ptr<devices> owner_;
  driver_devices& devices_; ///< the same
  std::int32_t device_;
  CUcontext context_; ///< the primary one of the device
  CUstream stream_;
  device_progress last_;
};

} // namespace farandole
