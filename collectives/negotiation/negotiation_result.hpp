// What the leader of a process set decided in one step. Most of it is for all members, in the order that
// negotiation.capnp gives; refusals and questions are for one member only, so that a member which has gone on
// meanwhile never takes an answer to its past for one to its present.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/fusion/ready_tensor.hpp"
#include "messages/values/error.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

/// A failure that concerns one member: the others have not asked for the tensor, or have been told already.
struct refusal {
  std::int32_t rank = -1; ///< global
  farandole::failure failure;

  friend bool operator==(const refusal&, const refusal&) = default;
};

/// "What did you mean by this id?", to the member that sent it.
struct question {
  std::int32_t rank = -1; ///< global
  std::uint32_t id = 0;

  friend bool operator==(const question&, const question&) = default;
};

struct negotiation_result {
  std::vector<assignment> assignments;
  std::vector<std::uint32_t> forget;
  std::vector<fast_path_round> retract;
  std::vector<failure> failures;           ///< everybody that takes part has asked for these
  std::vector<refusal> refusals;           ///< sent as a schedule to one member
  std::vector<question> questions;         ///< sent as a schedule to one member
  std::vector<ready_tensor> ready;         ///< in the order in which they became ready
  std::vector<inline_value> results;       ///< of tensors that every member has sent inline
  std::int32_t joined = -1;                ///< global rank that joined last, once all have; after `ready`
  bool changed = false;                    ///< the process sets, as all had asked
  std::vector<set_event> sets;             ///< what starts and ends by it
  std::vector<set_restart> restarts;       ///< sets that have failed on some member
  std::vector<std::uint32_t> dissolved;    ///< buckets
  std::vector<bucket> buckets;             ///< new ones
  bool whole = false;                      ///< all of a bucket is ready: no company of it is to come
  bool end = false;                        ///< nothing follows
  std::optional<departed_member> departed; ///< of the global set, with `end`: who left first

  /// The sender broke the protocol; nothing of what followed the breach was taken. For the log, and the end
  /// of its link.
  error breach;
  std::int32_t broken_by = -1; ///< global rank; with `breach`

  bool empty() const {
    return assignments.empty() && forget.empty() && retract.empty() && failures.empty() && refusals.empty() &&
           questions.empty() && ready.empty() && results.empty() && joined < 0 && !changed &&
           restarts.empty() && dissolved.empty() && buckets.empty() && !end && !breach;
  }
  friend bool operator==(const negotiation_result&, const negotiation_result&) = default;
};

} // namespace farandole
