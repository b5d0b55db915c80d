// Which process sets this member asks for when a generation begins. All members must ask for the same; so
// nothing goes in but what all have alike: what init() was given, the table of members, and which sets the
// rendezvous says go on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/membership.hpp"
#include "messages/wire/set_change.hpp"

namespace farandole {

/// What a rule may look at: one member, as all members see it.
struct member_facts {
  std::int32_t rank = 0;
  std::int32_t size = 1;
  std::int32_t local_rank = 0;
  std::int32_t local_size = 1;
  std::int32_t cross_rank = 0;
  std::int32_t cross_size = 1;
  std::string host; ///< name
};

/// Whether a member is in the set. The same answer for the same member on every member of the job.
using set_rule = std::function<expected<bool>(const member_facts&)>;

/// The sets of init(). Those by rule have the ids after the others.
struct set_wishes {
  std::vector<std::vector<std::int32_t>> ranks; ///< each ascending
  std::vector<set_rule> rules;
};

struct set_founding {
  set_change change; ///< what to ask for
  /// What there is once all have asked; members are ranks of this generation. A set by rule may have none.
  std::vector<kept_set> sets;
};

/// What is wrong with a list of ranks is for all members to hear, and not looked at. Fails where a rule does,
/// or is missing for a set that goes on.
expected<set_founding> found_sets(const welcome& told, const set_wishes& wishes);

} // namespace farandole
