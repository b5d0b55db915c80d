// Enumerates all interleavings of the steps of two members, for tests of concurrent protocols.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace farandole::testing {

/// Calls `play(order)` for each interleaving of `first` steps of member 0 and `second` steps of member 1;
/// `order[i]` is the member that takes step i. Returns the number of interleavings.
template <class Play>
std::size_t for_each_interleaving(std::size_t first, std::size_t second, const Play& play) {
  std::vector<std::size_t> order(first, 0);
  order.resize(first + second, 1);
  std::size_t count = 0;
  do {
    play(order);
    ++count;
  } while (std::next_permutation(order.begin(), order.end()));
  return count;
}

} // namespace farandole::testing
