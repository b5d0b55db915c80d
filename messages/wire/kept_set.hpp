// A process set that outlives its generation. Its members are ranks within a generation, and slots between two
// generations, because a slot never changes. A set is identified by its origin, not by its remaining members.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace farandole {

/// The identity of a set, which is never reused in the job.
struct set_origin {
  std::uint64_t born = 0;  ///< the generation in which it was added; 0: given to init()
  bool by_rule = false;    ///< given to init() as a function that selects members anew in each generation
  std::uint32_t index = 0; ///< among init()'s sets by ranks or by rule, or its generation's changes

  friend auto operator<=>(const set_origin&, const set_origin&) = default;
};

struct kept_set {
  set_origin origin;
  std::uint32_t id = 0; ///< for users; never changes
  /// Ascending: slots in a hello, ranks in a welcome. Empty for a set by rule.
  std::vector<std::int32_t> members;

  friend bool operator==(const kept_set&, const kept_set&) = default;
};

} // namespace farandole
