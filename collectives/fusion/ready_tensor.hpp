// A tensor that every member has requested, with everything that is needed to put it in a bundle. No lookup is
// necessary.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "messages/values/signature.hpp"

namespace farandole {

struct ready_details {
  std::string name;                     ///< of a tensor that has no id
  std::vector<std::int64_t> first_dims; ///< allgather, by rank
  std::int64_t row_elements = 0;        ///< allgather
  /// Which of its devices each member has the tensor on, by rank; empty: all have it on their first one, or in host
  /// memory.
  std::vector<std::uint8_t> devices = {};

  friend bool operator==(const ready_details&, const ready_details&) = default;
};

/// Kept small: a training step has thousands of them.
struct ready_tensor {
  std::uint32_t id = 0; ///< 0: known by `name`
  std::uint32_t group = 0;
  farandole::operation operation = farandole::operation::allreduce;
  farandole::dtype dtype = farandole::dtype::float32;
  farandole::reduce_op reduce_op = farandole::reduce_op::sum;
  std::int32_t root = -1; ///< global rank
  double prescale = 1.0;
  double postscale = 1.0;
  memory_kind memory = memory_kind::host;
  std::int64_t elements = 0; ///< of one member's input; allgather, alltoall: of all inputs together
  std::size_t bytes = 0;     ///< counted against the fusion threshold
  std::chrono::nanoseconds first_request{0}; ///< when the first member requested it
  std::int32_t first_rank = -1;              ///< the global rank of that member
  /// Fields that most tensors do not need. Null if none of them is needed.
  std::shared_ptr<const ready_details> details;

  /// Empty when the tensor has an id.
  std::string_view name() const { return details ? std::string_view(details->name) : std::string_view(); }

  /// Whether both are the same tensor; when it was requested does not count.
  friend bool operator==(const ready_tensor& a, const ready_tensor& b);
};

/// Returns `tensor` identified by `name` instead of an id.
ready_tensor by_name(ready_tensor tensor, std::string_view name);

} // namespace farandole
