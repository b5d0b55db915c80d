// The changes of the table of process sets that members may request, and their results. All members of the job
// take part in a change, whether or not they are in the set; negotiation.capnp describes the protocol.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace farandole {

/// Maximum number of process sets at a time besides the global one.
inline constexpr std::size_t set_limit = 1024;

/// The name under which a change is in flight and may fail.
inline constexpr std::string_view set_change_name = "farandole.process_sets";

enum class set_change_kind : std::uint8_t {
  create, ///< once, when the generation starts: the sets that exist before the first operation
  add,    ///< adds one set
  remove, ///< removes one set
};
inline constexpr std::size_t set_change_kind_count = 3;

/// The change that one member requests.
struct set_change {
  set_change_kind kind = set_change_kind::add;
  std::uint32_t id = 0; ///< remove: the set
  /// create, add: the sets, each with its global ranks in ascending order. The decoder does not check that the
  /// ranks exist and are unique, because all members must learn of such an error.
  std::vector<std::vector<std::int32_t>> sets;
  /// create, if sets may outlive generations: the id of each set, which alone identifies it; 0 for the set of
  /// all ranks. Empty: the leader assigns the ids, and equal lists stand for one set.
  std::vector<std::uint32_t> ids = {};

  friend bool operator==(const set_change&, const set_change&) = default;
};

/// A set starts or ends.
struct set_event {
  std::uint32_t number = 0; ///< in envelopes; from 1, never reused within the generation
  std::uint32_t id = 0;     ///< shown to users; may be reused
  bool ends = false;
  std::vector<std::int32_t> ranks; ///< global, ascending

  friend bool operator==(const set_event&, const set_event&) = default;
};

/// The part of a process set on one member has failed.
struct set_fault {
  std::uint32_t number = 0;
  std::string reason;

  friend bool operator==(const set_fault&, const set_fault&) = default;
};

/// A set that has failed ends at once on all its members, and restarts under the same id and with a new
/// number.
struct set_restart {
  std::uint32_t ended = 0;         ///< number
  std::optional<set_event> begins; ///< empty: it was being removed, or has already restarted
  std::string reason;              ///< with the rank that reported it
  bool given_up = false;           ///< it has failed too often: nothing begins, and the generation ends

  friend bool operator==(const set_restart&, const set_restart&) = default;
};

} // namespace farandole
