// One tensor that a caller submits, and how the caller will learn that the operation has completed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "messages/values/device.hpp"
#include "messages/values/signature.hpp"

namespace farandole {

/// How the caller will learn that an operation has completed. Selects how the tensor is exchanged.
enum class completion_mode : std::uint8_t {
  any,     ///< the caller waits later, or registers a callback
  wait,    ///< the submitting thread waits at once, and may move the bytes itself while it does
  callback ///< by a callback only; if one member says so, it holds for all
};

struct submission {
  std::string_view name;            ///< unique among the operations in flight in the set
  farandole::signature signature;   ///< its root is a global rank in every process set
  const std::byte* input = nullptr; ///< contiguous; read until settled
  /// Contiguous; written until settled; may equal `input`. allgather, alltoall: null, the core allocates.
  /// reducescatter: null, or memory for the own segment that does not overlap `input`: with n members and a first
  /// extent of d, d / n rows, and one more on the first d % n ranks.
  std::byte* output = nullptr;
  std::uint32_t set = 0; ///< process set; 0 is the global one
  /// alltoall: the number of rows for each rank of the set, in rank order, with the first extent as their sum; empty:
  /// equal parts. Ranks need not agree, and the numbers may change from step to step. Copied.
  std::span<const std::int64_t> splits;
  /// A hint: with any value the caller may wait and may register a callback.
  completion_mode completion = completion_mode::any;
  /// This member contributes nothing to an allreduce or allgather; the result is one of any `result_kind`. The input of
  /// an allreduce is added if another member contributes: zeros, or what this member has left of earlier contributions.
  bool absent = false;
  /// Of input and output; the signature has its kind. Memory of a device must stay allocated until the operation is
  /// released, which may be after it has settled.
  tensor_memory memory = {};
};

} // namespace farandole
