// What a bundle of tensors in device memory says about its devices.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/transport/path.hpp"

namespace farandole {

/// The device of this member's tensors; -1 if it has none, because it has joined.
inline std::int32_t device_of(const work& bundle) {
  for (const auto& part : bundle.parts)
    if (part.location.device >= 0)
      return part.location.device;
  return -1;
}

/// The points at which the tensors of a bundle are ready, without repetitions in a row.
inline std::vector<device_point_ptr> ready_points(const work& bundle) {
  std::vector<device_point_ptr> points;
  for (const auto& part : bundle.parts)
    if (part.location.ready && (points.empty() || points.back() != part.location.ready))
      points.push_back(part.location.ready);
  return points;
}

} // namespace farandole
