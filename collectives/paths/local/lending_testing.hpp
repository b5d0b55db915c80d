// What tests of lent tensors share: members that are threads, or objects, of one process, and have met.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/paths/local/loan.hpp"

namespace farandole::testing {

/// Each member's circle; `reach`: whether all reach the memory of all; `arena_bytes`: 0 where nobody has one.
inline std::vector<std::shared_ptr<lending_circle>> make_circles(std::uint32_t members, bool reach = true,
                                                                 std::size_t arena_bytes = 0) {
  std::vector<std::shared_ptr<lending_circle>> circles;
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    circles.push_back(std::make_shared<lending_circle>());
    if (arena_bytes > 0)
      circles.back()->own_arena = *arena::create(arena_bytes);
  }
  for (auto& circle : circles) {
    circle->all_reach_all = reach;
    for (auto& other : circles) {
      const auto& seen = circle->others.emplace_back(other->own.card());
      if (arena_bytes > 0)
        circle->arenas.push_back(
            std::move(*arena_view::adopt(seen.fetch(other->own_arena->shared_descriptor()), arena_bytes)));
    }
  }
  return circles;
}

} // namespace farandole::testing
