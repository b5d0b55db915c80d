// Decides when the next generation starts. Members that have sent their hello wait for it. They keep waiting
// for others, start as the next generation, or are refused because it can never form. A generation needs
// enough members, and at least one that knows how far the training has progressed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "elastic/generation_record.hpp"
#include "elastic/membership_rules.hpp"
#include "elastic/set_register.hpp"
#include "elastic/slot_table.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

struct next_generation {
  std::vector<member> members;    ///< in rank order
  std::vector<bool> joined_late;  ///< by rank: the job has run before, and this member is new in it
  bool must_sync = true;          ///< the members' training states differ
  surviving_sets sets;            ///< the process sets that continue
  std::uint64_t state_generation; ///< of the newest training state of a member; 0: none has one
};

/// If neither field is set, the present members keep waiting.
struct formation_decision {
  std::optional<next_generation> start;
  std::string refusal; ///< not empty: the present members wait in vain, for this reason
};

class formation {
public:
  /// Not elastic: all slots count, so a generation always has exactly `rules.size` members.
  explicit formation(membership_rules rules);
  const membership_rules& rules() const { return rules_; }

  /// Elastic: no more processes will be started. From now on, decide() refuses members that wait for a
  /// generation that can no longer have enough members.
  void no_more_starts() { no_more_starts_ = true; }

  formation_decision decide(const slot_table& table, const generation_record& last) const;
  /// The members that the next generation waits for, by slot. `size` also counts members whose slots are not
  /// known yet. The caller sets `waited_seconds` and `report`.
  awaited missing(const slot_table& table, const generation_record& last) const;

private:
  /// Why there cannot be enough members any more; empty if there still can.
  std::string shortage_refusal(const slot_table& table) const;
  bool may_start(std::size_t present, const slot_table& table, const generation_record& last) const;

  membership_rules rules_;
  bool no_more_starts_ = false; ///< no process will be started for a new slot
};

} // namespace farandole
