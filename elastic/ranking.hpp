// Assigns ranks to members, and the local and cross ranks that follow from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "messages/wire/membership.hpp"

namespace farandole {

/// A process that may become a member of the next generation.
struct candidate {
  std::int32_t slot = 0;
  std::int32_t last_rank = -1;          ///< in the previous generation; -1: not a member of it
  const hello* hello_message = nullptr; ///< its hello; not null
};

/// Returns the members in rank order. Members of the previous generation come first and keep their order, so
/// the one with the lowest previous rank has rank 0. formation.cpp first resets `last_rank` of members without the
/// newest training state. New members follow: those with the newest training state first,
/// because rank 0 gives its state to all, then by slot. Candidates beyond `limit` are left out.
std::vector<member> ranked(std::vector<candidate> candidates, std::size_t limit);

} // namespace farandole
