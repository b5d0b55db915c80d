// What tests of lent tensors share: members that are threads, or objects, of one process, and have met.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/paths/local/loan.hpp"

namespace farandole::testing {

/// Each member's circle; `reach`: whether all reach the memory of all.
inline std::vector<std::shared_ptr<lending_circle>> make_circles(std::uint32_t members, bool reach = true) {
  std::vector<std::shared_ptr<lending_circle>> circles;
  for (std::uint32_t rank = 0; rank < members; ++rank)
    circles.push_back(std::make_shared<lending_circle>());
  for (auto& circle : circles) {
    circle->all_reach_all = reach;
    for (auto& other : circles)
      circle->others.emplace_back(other->own.card());
  }
  return circles;
}

} // namespace farandole::testing
