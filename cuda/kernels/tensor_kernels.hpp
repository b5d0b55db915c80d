// The kernels of one device: it runs passes over tensors (tensor_pass.hpp) on any stream of its primary
// context. A pass is one launch for up to about 1,300 pieces.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cuda/driver/driver_devices.hpp"
#include "cuda/kernels/kernel_image.hpp"
#include "cuda/kernels/pass_kernel.hpp"
#include "cuda/kernels/tensor_pass.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// run() is thread-safe. `owner` has to outlive it.
class tensor_kernels {
public:
  /// Loads all kernels, so that no launch has to wait for the device to load one. `unimplemented` if this
  /// build has no kernels, or none for the device or for its driver; the text tells why.
  static expected<std::unique_ptr<tensor_kernels>> open(driver_devices& owner, std::int32_t device,
                                                        const kernel_image& image = built_kernels());
  tensor_kernels(const tensor_kernels&) = delete;
  tensor_kernels& operator=(const tensor_kernels&) = delete;
  /// All passes have to be done: the device runs the kernels from memory that is freed here.
  ~tensor_kernels();

  /// Makes the stream run the pass, and returns at once. The context of the device has to be current. `pass`
  /// may be changed afterwards; the memory of its pieces belongs to the stream until the pass is done. A pass
  /// without elements launches nothing. `unimplemented`, before any launch, if no kernel can run it. After
  /// another error, the stream may still run some of the pieces.
  error run(CUstream stream, const tensor_pass& pass) const;

private:
  struct kernel {
    CUfunction small = nullptr;
    CUfunction large = nullptr; ///< null if the driver takes no argument of that size
  };

  tensor_kernels(driver_devices& owner, std::int32_t device, CUcontext context)
      : owner_(owner), device_(device), context_(context) {}
  error load(const kernel_image& image);
  error find_kernels();
  error check(const tensor_pass& pass) const;
  template <class Arguments>
  error launch(CUfunction function, CUstream stream, const tensor_pass& pass,
               std::span<const pass_piece> pieces) const;
  error failure(const char* function, CUresult result) const {
    return device_failure(owner_.driver(), device_, function, result);
  }

  driver_devices& owner_;
  const std::int32_t device_;
  CUcontext context_; ///< the primary one
  CUmodule module_ = nullptr;
  std::uint64_t most_blocks_ = 0; ///< that the device runs at once
  std::array<kernel, kernel_count> kernels_{};
};

} // namespace farandole
