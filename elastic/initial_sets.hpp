// The process sets that this member requests when a generation begins. All members must request the same ones,
// so they are derived only from inputs that all members share: the arguments of init(), the table of members,
// and the sets that continue according to the rendezvous.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/membership.hpp"
#include "messages/wire/set_change.hpp"

namespace farandole {

/// The input of a rule: one member, as all members see it.
struct member_facts {
  std::int32_t rank = 0;
  std::int32_t size = 1;
  std::int32_t local_rank = 0;
  std::int32_t local_size = 1;
  std::int32_t cross_rank = 0;
  std::int32_t cross_size = 1;
  std::string host; ///< name
};

/// Whether a member is in the set. Must give the same answer for the same member on all members of the job.
using set_rule = std::function<expected<bool>(const member_facts&)>;

/// The sets given to init(). Sets by rule get the ids after the others.
struct set_wishes {
  std::vector<std::vector<std::int32_t>> ranks; ///< each ascending
  std::vector<set_rule> rules;
};

struct initial_sets {
  set_change change; ///< the request
  /// The sets once all members have requested them, with ranks of this generation. A set by rule may be empty.
  std::vector<kept_set> sets;
};

/// Lists of ranks are not checked here, because all members must learn of an error in them. Fails if a rule
/// fails, or if a set by rule continues and its rule is missing.
expected<initial_sets> create_initial_sets(const welcome& greeting, const set_wishes& wishes);

} // namespace farandole
