// Requests and schedules as plain values, and their encoding; negotiation.capnp defines their meaning. Decoding
// checks all fields: numbers are in range, lists and texts are bounded. A decoded value is well-formed, but its
// content is not checked against the state of the negotiation.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/values/signature.hpp"
#include "messages/wire/departure.hpp"
#include "messages/wire/envelope.hpp"
#include "messages/wire/set_change.hpp"

namespace farandole {

/// Longest tensor name in bytes.
inline constexpr std::size_t name_limit_bytes = 4096;
/// Maximum number of dimensions of a tensor.
inline constexpr std::size_t dimension_limit = 64;
/// Largest tensor that travels inside a message of the negotiation, in bytes.
inline constexpr std::size_t inline_limit_bytes = std::size_t{64} << 10;
/// Maximum number of buckets of a process set at a time.
inline constexpr std::size_t bucket_limit = 64;

/// The generation, process set, source and target of a message.
struct address {
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
  std::int32_t source = -1;
  std::int32_t target = -1; ///< the only receiver; -1: all members

  friend bool operator==(const address&, const address&) = default;
};

struct request {
  std::string name;
  farandole::signature signature;
  std::uint32_t group = 0;
  std::uint32_t group_size = 0;
  bool no_fast_path = false; ///< this member does not want a cell on the fast path for it
  std::uint8_t device = 0;   ///< which of the devices that this member uses in this set holds the tensor
  bool absent = false;       ///< this member contributes nothing: zeros, or no rows if the others gather rows

  friend bool operator==(const request&, const request&) = default;
};

/// A round of an id on the fast path.
struct fast_path_round {
  std::uint32_t id = 0;
  std::uint64_t round = 0;

  friend bool operator==(const fast_path_round&, const fast_path_round&) = default;
};

/// The bytes of a tensor that travels inside a message of the negotiation.
struct inline_value {
  std::uint32_t id = 0;
  std::vector<std::byte> bytes;

  friend bool operator==(const inline_value&, const inline_value&) = default;
};

/// Member → leader.
struct requests {
  std::vector<std::uint32_t> ids;
  std::vector<request> full;
  std::vector<fast_path_round> left;
  bool join = false;
  std::optional<departure> leaves = {}; ///< in the global set
  std::vector<std::string> withdraw = {};
  std::optional<set_change> change = {}; ///< in the global set
  std::uint64_t finished = 0;            ///< number of finished bundles; 0: not reported
  std::vector<set_fault> faults = {};    ///< in the global set
  std::vector<std::uint32_t> buckets = {};
  std::vector<inline_value> values = {}; ///< inline tensors of some of `ids`

  /// Whether the outcome would change if it overtook ids that wait for the rest of their bucket.
  bool must_not_overtake() const {
    return !left.empty() || join || leaves || !withdraw.empty() || change || !faults.empty();
  }
  bool empty() const {
    return ids.empty() && buckets.empty() && full.empty() && left.empty() && !join && !leaves &&
           withdraw.empty() && !change && finished == 0 && faults.empty();
  }
  friend bool operator==(const requests&, const requests&) = default;
};

/// Assigns an id to a name. `cell` is its offset in every member's fast path area, or -1; `cell_bytes` is the
/// size of one member's tensor there (the cell takes shm_fast_path::footprint of it).
struct assignment {
  std::uint32_t id = 0;
  std::string name;
  std::int64_t cell = -1;
  std::uint32_t cell_bytes = 0;
  /// That of rank 0 of the set (allgather, alltoall: only the first extent may differ on other ranks).
  farandole::signature signature;

  friend bool operator==(const assignment&, const assignment&) = default;
};

struct bundle_entry {
  std::uint32_t id = 0; ///< 0: known by `name`
  std::string name;
  std::int64_t elements = 0;
  std::vector<std::int64_t> first_dims; ///< allgather: by rank
  std::int64_t row_elements = 0;        ///< allgather

  friend bool operator==(const bundle_entry&, const bundle_entry&) = default;
};

/// The first `count` ordered bundles of a set, by its number.
struct set_launches {
  std::uint32_t set = 0;
  std::uint64_t count = 0;

  friend bool operator==(const set_launches&, const set_launches&) = default;
};

/// Tensors that move together, in one operation of a path.
struct bundle {
  std::uint64_t sequence = 0;
  farandole::operation operation = farandole::operation::allreduce;
  farandole::dtype dtype = farandole::dtype::float32;
  farandole::reduce_op reduce_op = farandole::reduce_op::sum;
  std::int32_t root = -1; ///< global rank
  double prescale = 1.0;
  double postscale = 1.0;
  memory_kind memory = memory_kind::host; ///< of all its tensors
  /// Which of its devices each member has the tensors on, by rank in the set; empty: all have them on their first one.
  std::vector<std::uint8_t> devices;
  bool ordered = false;            ///< devices may wait for other members while they work on it
  std::vector<set_launches> after; ///< launched before it, on members of those sets
  std::vector<bundle_entry> entries;

  friend bool operator==(const bundle&, const bundle&) = default;
};

/// Ids that members request together, and how long they may wait for each other.
struct bucket {
  std::uint32_t id = 0;
  std::vector<std::uint32_t> ids;
  std::chrono::microseconds patience{0};

  friend bool operator==(const bucket&, const bucket&) = default;
};

/// A tensor that failed on every rank, and the reason.
struct failure {
  std::string name;
  error reason;

  friend bool operator==(const failure&, const failure&) = default;
};

/// Leader → members. Its parts are applied in the order of schedule_order.hpp.
struct schedule {
  std::vector<assignment> assignments;
  std::vector<std::uint32_t> forget;
  std::vector<fast_path_round> retract;
  std::vector<failure> failures;
  std::vector<std::uint32_t> ask;
  std::vector<bundle> bundles;
  std::int32_t joined = -1;
  bool changed = false; ///< the requested change of process sets is done; see `sets`
  std::vector<set_event> sets = {};
  std::vector<set_restart> restarts = {};    ///< sets that have failed on some member
  std::vector<std::uint32_t> dissolved = {}; ///< buckets
  std::vector<bucket> buckets = {};          ///< new ones
  bool end = false;
  std::optional<departed_member> departed = {}; ///< global set, with `end`: the member that left first
  std::vector<inline_value> results = {};       ///< of tensors that every member has sent inline
  std::vector<std::string> absent = {};         ///< tensors to which no member contributes

  bool empty() const {
    return assignments.empty() && results.empty() && forget.empty() && retract.empty() && failures.empty() &&
           absent.empty() && ask.empty() && bundles.empty() && joined < 0 && !changed && restarts.empty() &&
           dissolved.empty() && buckets.empty() && !end;
  }
  friend bool operator==(const schedule&, const schedule&) = default;
};

envelope encode(const address& from, const requests& value);
envelope encode(const address& from, const schedule& value);

/// `invalid_argument` when the envelope holds something else or breaks a rule; the text says which.
expected<requests> decode_requests(const envelope& message);
/// `members`: size of the set; lists by rank must have this length, ranks must be below it.
expected<schedule> decode_schedule(const envelope& message, std::int32_t members);

} // namespace farandole
