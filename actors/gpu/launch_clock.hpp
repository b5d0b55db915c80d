// The order in which work that waits for other members is launched on devices, over all process sets. The leader, which
// leads every set, counts the bundles of each set that take part in the order, and states with each bundle how many of
// the other sets were before it. Members launch accordingly (launch_order.hpp): messages about different sets may be
// handled in any order on their way. These counts are a vector clock with an entry for each set.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "messages/wire/negotiation.hpp"

namespace farandole {

/// On the leader's event loop.
class launch_clock {
public:
  /// The set of this number exists from now on. `ranks`: its members.
  void open(std::uint32_t set, std::vector<std::int32_t> ranks);
  void close(std::uint32_t set) { sets_.erase(set); }

  /// The set's next bundle is scheduled: the bundles of sets with common members that were scheduled before.
  std::vector<set_launches> next(std::uint32_t set);

private:
  struct entry {
    std::vector<std::int32_t> ranks; ///< ascending
    std::uint64_t scheduled = 0;
  };

  std::map<std::uint32_t, entry> sets_;
};

} // namespace farandole
