// Members that have said hello wait for the next generation. This class decides whether they wait for
// others, may go on as that generation, or are turned away because it can never come: there have to be enough
// of them, and somebody who knows how far the training is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "elastic/generation_record.hpp"
#include "elastic/membership_rules.hpp"
#include "elastic/seat_table.hpp"
#include "elastic/set_register.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

struct next_generation {
  std::vector<member> members;    ///< in rank order
  std::vector<bool> joined_late;  ///< by rank: others go on, and this member is new among them
  bool must_sync = true;          ///< their training states differ
  surviving_sets sets;            ///< process sets that go on
  std::uint64_t state_generation; ///< of the newest training state that a member has; 0: none has any
};

/// Neither: those that are present wait.
struct formation_decision {
  std::optional<next_generation> start;
  std::string refusal; ///< not empty: those that are present wait in vain, for this reason
};

class formation {
public:
  /// Not elastic: all slots count, so there are never fewer or more than `rules.size` members.
  explicit formation(membership_rules rules);
  const membership_rules& rules() const { return rules_; }

  /// Elastic: no process is started any more. Who waits for a generation that can no longer have enough
  /// members is turned away, now or later.
  void nobody_comes() { nobody_comes_ = true; }

  formation_decision decide(const seat_table& seats, const generation_record& last) const;
  /// Who is waited for, by slot. `size` counts members that no slot is known of yet, too; `waited_seconds`
  /// and `report` are left to the caller.
  awaited missing(const seat_table& seats, const generation_record& last) const;

private:
  /// Empty: there may still be enough.
  std::string shortage_refusal(const seat_table& seats) const;
  bool may_start(std::size_t present, const seat_table& seats, const generation_record& last) const;

  membership_rules rules_;
  bool nobody_comes_ = false; ///< but those that are known
};

} // namespace farandole
