// A process set that outlives its generation. Its members are ranks within a generation and slots between
// two, for a slot never changes. What tells it from every other set of the job, whatever members it has left,
// is where it comes from.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace farandole {

/// Where a set comes from. Never used again in the job.
struct set_origin {
  std::uint64_t born = 0;  ///< the generation in which it was added; 0: one of init()'s
  bool by_rule = false;    ///< of init()'s: a function says who is in, in each generation anew
  std::uint32_t place = 0; ///< among init()'s sets of ranks, or by rule; among the changes of its generation

  friend auto operator<=>(const set_origin&, const set_origin&) = default;
};

struct kept_set {
  set_origin origin;
  std::uint32_t id = 0; ///< for people; stays
  /// Ascending. In a hello slots, in a welcome ranks; none of a set by rule.
  std::vector<std::int32_t> members;

  friend bool operator==(const kept_set&, const kept_set&) = default;
};

} // namespace farandole
