// The work that a device is given for one bundle: a pass of kernels, calls of NCCL as one group, and another pass. The
// order of the calls is the same on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/kernels/tensor_pass.hpp"
#include "messages/values/dtype.hpp"

namespace farandole {

enum class device_call_kind : std::uint8_t { allreduce, broadcast };

/// One call of NCCL. `input` may equal `output`.
struct device_call {
  device_call_kind kind = device_call_kind::allreduce;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::size_t elements = 0;
  std::int32_t root = -1; ///< broadcast: rank within the communicator

  friend bool operator==(const device_call&, const device_call&) = default;
};

struct device_plan {
  farandole::dtype dtype = farandole::dtype::float32; ///< of the calls
  reduce_op reduction = reduce_op::sum;               ///< allreduce: sum, min, max or product
  tensor_pass before;
  std::vector<device_call> calls;
  tensor_pass after;
};

} // namespace farandole
