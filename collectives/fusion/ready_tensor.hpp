// A tensor that every member has asked for: all that is needed to put it in a bundle, without looking
// anything up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "messages/values/signature.hpp"

namespace farandole {

struct ready_details {
  std::string name;                     ///< of a tensor without id
  std::vector<std::int64_t> first_dims; ///< allgather, by rank
  std::int64_t row_elements = 0;        ///< allgather

  friend bool operator==(const ready_details&, const ready_details&) = default;
};

/// Kept small: a step brings thousands.
struct ready_tensor {
  std::uint32_t id = 0; ///< 0: known by `name`
  std::uint32_t group = 0;
  farandole::operation operation = farandole::operation::allreduce;
  farandole::dtype dtype = farandole::dtype::float32;
  farandole::reduce_op reduce_op = farandole::reduce_op::sum;
  std::int32_t root = -1; ///< global rank
  double prescale = 1.0;
  double postscale = 1.0;
  std::int64_t elements = 0; ///< of one member's input; allgather, alltoall: of all together
  std::size_t bytes = 0;     ///< counted against the fusion threshold
  /// What most tensors lack. Null: nothing of it.
  std::shared_ptr<const ready_details> details;

  /// Empty when there is an id.
  std::string_view name() const { return details ? std::string_view(details->name) : std::string_view(); }

  friend bool operator==(const ready_tensor& a, const ready_tensor& b);
};

/// The same, known by its name instead of an id.
ready_tensor by_name(ready_tensor tensor, std::string_view name);

} // namespace farandole
