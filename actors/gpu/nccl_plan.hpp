// What a device and NCCL do for one bundle of tensors in device memory. All members make the same calls in the same order,
// because these depend on the sizes of the tensors alone.
//
// Small tensors are packed into a buffer, in one pass that scales them, and reduced by one call. Large ones are reduced
// where they are, in calls of up to 16 MiB, so that a member that has joined can take part with memory of its own.
#pragma once

#include <cstddef>

#include "collectives/transport/path.hpp"
#include "cuda/nccl/device_plan.hpp"

namespace farandole {

/// Whether a plan exists for bundles of this kind, in a set of `members` members.
bool has_device_plan(operation id, dtype type, reduce_op op, std::size_t members);
inline bool has_device_plan(const work& bundle, std::size_t members) {
  return has_device_plan(bundle.operation, bundle.dtype, bundle.reduce_op, members);
}

/// The parts of a launcher's buffer. Defined for tests, which use a smaller one.
struct device_buffer {
  std::byte* packed = nullptr; ///< of tensors that move together
  std::size_t packed_bytes = 0;
  std::byte* neutral = nullptr;   ///< what a member that has joined contributes to a call
  std::byte* discarded = nullptr; ///< the result that it does not need
  std::size_t call_bytes = 0;     ///< of each of these two: the largest call

  /// Of `bytes` bytes from `memory` on, both multiples of 256.
  static device_buffer of(std::byte* memory, std::size_t bytes);
};

/// The plan of a bundle for which there is one, in a set of `members` members. Its addresses refer to `buffer`, which is
/// not used by a set of one.
device_plan device_plan_of(const work& bundle, std::size_t members, const device_buffer& buffer);

} // namespace farandole
