// Groups of calls: each thread has its own. A call outside of a group is a group of one.
#pragma once

#include <nccl.h>

#include <memory>

#include "cuda/fake/fake_nccl_kernel_testing.hpp"

namespace fake_nccl {

bool is_in_group();

/// The group fails with this result, unless it has failed before. Returns the result.
ncclResult_t fail_group(ncclResult_t result);

/// Adds an operation to the thread's group, or launches it if there is none.
ncclResult_t add_to_group(const std::shared_ptr<ncclComm>& comm, operation next);

/// Adds a communicator that begins with the group's end, or begins now if there is no group. `*handle` becomes null if
/// that fails for a blocking communicator.
ncclResult_t add_to_group(const std::shared_ptr<ncclComm>& comm, ncclComm_t* handle);

} // namespace fake_nccl
