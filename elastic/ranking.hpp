// Which member has which number: ranks, and the places on hosts that follow from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "messages/wire/membership.hpp"

namespace farandole {

/// Somebody who is to be in the next generation.
struct candidate {
  std::int32_t slot = 0;
  std::int32_t last_rank = -1; ///< of the generation before; -1: not a member of it
  const hello* said = nullptr; ///< not null
};

/// In rank order. Who was in before stays before who is new; members of the generation before keep their
/// order, so the oldest of them that is left has rank 0. New ones follow, those with the newest training
/// state first, then by slot: rank 0 gives its state to all. Who is beyond `most` is left out.
std::vector<member> ranked(std::vector<candidate> candidates, std::size_t limit);

} // namespace farandole
