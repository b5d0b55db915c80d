// The decisions of the leader of a process set in one step. Most of them are sent to all members, which apply them
// in the order that negotiation.capnp defines. Refusals and questions are sent to one member only, so that a member
// that has moved on in the meantime never mistakes the answer to an earlier request for the answer to its current
// one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/fusion/ready_tensor.hpp"
#include "messages/values/error.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

/// A failure that concerns one member: the other members have not requested the tensor, or have been told already.
struct refusal {
  std::int32_t rank = -1; ///< global
  farandole::failure failure;

  friend bool operator==(const refusal&, const refusal&) = default;
};

/// Asks the member that sent `id` for its full request.
struct question {
  std::int32_t rank = -1; ///< global
  std::uint32_t id = 0;

  friend bool operator==(const question&, const question&) = default;
};

struct negotiation_result {
  std::vector<assignment> assignments;
  std::vector<std::uint32_t> forget;
  std::vector<fast_path_round> retract;
  std::vector<failure> failures;           ///< of tensors that all members that have not joined requested
  std::vector<std::string> absent;         ///< tensors to which no member contributes
  std::vector<refusal> refusals;           ///< sent as a schedule to one member
  std::vector<question> questions;         ///< sent as a schedule to one member
  std::vector<ready_tensor> ready;         ///< in the order in which they became ready
  std::vector<inline_value> results;       ///< of tensors that every member has sent inline
  std::int32_t joined = -1;                ///< global rank that joined last, once all have; after `ready`
  bool changed = false;                    ///< the change of process sets that all members requested is done
  std::vector<set_event> sets;             ///< the sets that start and end by it
  std::vector<set_restart> restarts;       ///< sets that have failed on some member
  std::vector<std::uint32_t> dissolved;    ///< buckets that end
  std::vector<bucket> buckets;             ///< new buckets
  bool whole = false;                      ///< all of a bucket is ready: fusion need not wait for more
  bool end = false;                        ///< the set ends; nothing follows
  std::optional<departed_member> departed; ///< global set, with `end`: the member that left first

  /// The sender broke the protocol; the rest of its message was ignored. The text is for the log, and the
  /// sender's link must be closed.
  error breach;
  std::int32_t broken_by = -1; ///< global rank; with `breach`

  bool empty() const {
    return assignments.empty() && forget.empty() && retract.empty() && failures.empty() && absent.empty() &&
           refusals.empty() && questions.empty() && ready.empty() && results.empty() && joined < 0 &&
           !changed && restarts.empty() && dissolved.empty() && buckets.empty() && !end && !breach;
  }
  friend bool operator==(const negotiation_result&, const negotiation_result&) = default;
};

} // namespace farandole
