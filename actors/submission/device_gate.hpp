// Where tensors in the memory of a device enter: they are checked, and the points at which they are ready are taken.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/submission/operation_state.hpp"
#include "actors/submission/submission.hpp"
#include "cuda/driver/devices.hpp"
#include "messages/values/device.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// The devices of this process. The driver is loaded at the first call that succeeds, and stays loaded; the error says why
/// there is none. Thread-safe.
expected<std::shared_ptr<devices>> devices_of_process();

/// Whether a tensor in device memory is the result itself: in place, in a process set of one member, without scales. The
/// result is ready when the tensor is.
bool is_own_result(const signature& signature, bool in_place, std::int32_t members);

/// The point at which a tensor is ready: null if it is in host memory or ready already. `invalid_argument`, with the
/// name, if input or output is not memory of the device that the request names. `members`: of the process set. For the
/// thread that submits, without a lock held: it calls the driver.
expected<device_point_ptr> admit_memory(const submission& request, std::int32_t members);

/// The same for all tensors of a group, which must be on one device.
expected<std::vector<device_point_ptr>> admit_group_memory(std::span<const submission> requests,
                                                           std::int32_t members);

/// Whether the result of an operation that has ended is the tensor itself: ready at the point at which the tensor is.
bool is_ready_with_tensor(const operation_state& operation);

/// Makes the work that `stream` of the operation's device is given from now on wait until the device has finished with
/// the operation, which is settled without error.
error make_stream_wait(const operation_state& operation, void* stream);

} // namespace farandole
