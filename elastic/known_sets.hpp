// The process sets that the callers of one runtime know to exist, which the runtime reports to the rendezvous
// when the next generation begins. A change counts once its caller has learned that it is done. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "messages/wire/kept_set.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

class known_sets {
public:
  /// The sets at the start of the generation; their members are ranks.
  void begin(std::vector<kept_set> sets);
  void added(std::uint64_t generation, std::uint32_t id, std::vector<std::int32_t> ranks);
  void removed(std::uint32_t id);

  /// The sets as they outlive the generation of `members`: with slots, and without members for a set by rule.
  std::vector<kept_set> to_keep(const std::vector<member>& members) const;

private:
  mutable std::mutex mutex_;   ///< held only briefly
  std::vector<kept_set> sets_; ///< by id; members are ranks
  std::uint32_t changes_ = 0;  ///< in this generation; all members that know of one number it alike
};

} // namespace farandole
