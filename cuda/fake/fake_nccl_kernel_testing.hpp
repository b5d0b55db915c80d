// The kernel of a communicator: the operations of one call, or of one group, which run together.
#pragma once

#include <cuda.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/fake/fake_nccl_driver_testing.hpp"
#include "cuda/fake/fake_nccl_frames_testing.hpp"

namespace fake_nccl {

struct operation {
  frame_header header;
  device_bytes input, output; ///< of no bytes if the rank sends or receives nothing
  std::size_t input_bytes = 0;
  CUstream stream = nullptr;
};

/// Launches the operations as one kernel on their streams. Sets the communicator's error if that fails.
ncclResult_t launch(const std::shared_ptr<ncclComm>& comm, std::vector<operation> operations);

} // namespace fake_nccl
