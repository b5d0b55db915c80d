// Which process sets continue in the next generation, and with which members. Members report their sets, with
// slots as members, in their hellos. The decision depends on nothing else and is the same for all members.
//
// A change of process sets in progress when a member is lost may have completed on some members only. So a set
// continues if every survivor has it: an addition that some survivor has not seen did not happen, and a removal
// that one survivor has seen did. Then each survivor has an object for each set that continues.
#pragma once

#include <cstdint>
#include <vector>

#include "messages/wire/membership.hpp"

namespace farandole {

/// A member of the previous generation that is in the next one.
struct survivor {
  std::int32_t slot = 0;
  std::int32_t rank = 0;                ///< in the next generation
  const hello* hello_message = nullptr; ///< its hello; not null
};

struct surviving_sets {
  bool kept = false;          ///< a survivor continues with its sets; false: all members found theirs
  std::vector<kept_set> sets; ///< by id; members are ranks of the next generation
};

/// A set keeps the surviving members that all survivors name; a set that has none left ends, unless it is by
/// rule. Sets are identified by their origin, never by their members. `survivors` is in rank order.
surviving_sets surviving(const std::vector<survivor>& survivors);

} // namespace farandole
