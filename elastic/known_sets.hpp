// Which process sets the callers of one runtime know to exist: what they can say to the rendezvous when the
// next generation begins. A change counts once its caller has been told that it is done. For any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "messages/wire/kept_set.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

class known_sets {
public:
  /// Those of the generation's start, with ranks.
  void begin(std::vector<kept_set> sets);
  void added(std::uint64_t generation, std::uint32_t id, std::vector<std::int32_t> ranks);
  void removed(std::uint32_t id);

  /// As they outlive the generation of these members: slots, and none of a set by rule.
  std::vector<kept_set> to_keep(const std::vector<member>& members) const;

private:
  mutable std::mutex guard_;   ///< held for moments
  std::vector<kept_set> sets_; ///< by id; ranks
  std::uint32_t changes_ = 0;  ///< of this generation: every member that knows of one counts it alike
};

} // namespace farandole
