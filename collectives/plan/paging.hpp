// A message has a largest size. A schedule that would be too large is told in several: each part keeps its
// order, so obeying them one after the other comes to the same.
#pragma once

#include <cstddef>
#include <vector>

#include "messages/negotiation.hpp"

namespace farandole {

/// `most_words`: about what one message may hold (8 bytes each); a single part is never cut.
std::vector<schedule> paged(schedule whole, std::size_t most_words = std::size_t{1} << 20);

} // namespace farandole
