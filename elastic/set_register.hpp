// Which process sets go on when a generation ends, and with whom. Members say in their hellos which sets they
// have, with slots for members; this decides, for all members alike, from nothing but that.
//
// A change of sets that was under way when somebody was lost may have come about for some members and not for
// others. So a set goes on if every survivor has it: an addition that not all have seen has not happened, a
// removal that one has seen has. Then all that go on have an object for each set that goes on.
#pragma once

#include <cstdint>
#include <vector>

#include "messages/wire/membership.hpp"

namespace farandole {

/// A member of the generation before that is in the next one.
struct survivor {
  std::int32_t slot = 0;
  std::int32_t rank = 0;       ///< in the next generation
  const hello* said = nullptr; ///< not null
};

struct surviving_sets {
  bool kept = false;          ///< there is somebody who goes on with sets; else all members found theirs
  std::vector<kept_set> sets; ///< by id; members are ranks
};

/// A set's members are those that all survivors name and that survive; a set that has none left is gone.
/// Sets are told apart by where they come from, never by their members. Survivors in rank order.
surviving_sets surviving(const std::vector<survivor>& survivors);

} // namespace farandole
