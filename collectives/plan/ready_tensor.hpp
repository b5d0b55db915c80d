// A tensor that every member has asked for: all that is needed to put it in a bundle, without looking
// anything up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "messages/signature.hpp"

namespace farandole {

struct ready_tensor {
  std::uint32_t id = 0; ///< 0: known by `name`
  std::uint32_t group = 0;
  farandole::operation operation = farandole::operation::allreduce;
  farandole::dtype dtype = farandole::dtype::float32;
  farandole::reduce_op reduce_op = farandole::reduce_op::sum;
  std::int32_t root = -1; ///< global rank
  double prescale = 1.0;
  double postscale = 1.0;
  std::int64_t elements = 0;            ///< of one member's input; allgather: of all together
  std::size_t bytes = 0;                ///< counted against the fusion threshold
  std::string name;                     ///< empty when there is an id
  std::vector<std::int64_t> first_dims; ///< allgather, by rank
  std::int64_t row_elements = 0;        ///< allgather

  friend bool operator==(const ready_tensor&, const ready_tensor&) = default;
};

} // namespace farandole
