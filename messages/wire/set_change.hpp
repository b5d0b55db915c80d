// What members may want of the table of process sets, and what became of it. All members of the job take part
// in a change, whether they are in the set or not; negotiation.capnp tells how.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace farandole {

/// Most process sets at a time besides the global one.
inline constexpr std::size_t set_limit = 1024;

/// The name under which a change is in flight and may fail.
inline constexpr std::string_view set_change_name = "farandole.process_sets";

enum class set_change_kind : std::uint8_t {
  found,  ///< once, when the generation starts: the sets that are to exist from the first operation on
  add,    ///< one more
  remove, ///< one less
};
inline constexpr std::size_t set_change_kind_count = 3;

/// What one member asks for.
struct set_change {
  set_change_kind kind = set_change_kind::add;
  std::uint32_t id = 0; ///< remove: which
  /// found, add: the sets, each with its global ranks in ascending order. Whether they exist and are unique
  /// is for all members to hear, so it is not a matter of form.
  std::vector<std::vector<std::int32_t>> sets;
  /// found, where sets may outlive generations: each set's id, by which alone sets are told apart; 0 for that
  /// of all ranks. None: they are given out here, and equal lists stand for one set.
  std::vector<std::uint32_t> ids = {};

  friend bool operator==(const set_change&, const set_change&) = default;
};

/// A set starts or ends.
struct set_event {
  std::uint32_t number = 0; ///< of envelopes; from 1, never used again within the generation
  std::uint32_t id = 0;     ///< what people see; may be used again
  bool ends = false;
  std::vector<std::int32_t> ranks; ///< global, ascending

  friend bool operator==(const set_event&, const set_event&) = default;
};

/// A member's part of a set has failed.
struct set_fault {
  std::uint32_t number = 0;
  std::string reason;

  friend bool operator==(const set_fault&, const set_fault&) = default;
};

/// A set that has failed ends at once on all its members, and starts anew under the same id and with a number
/// of its own.
struct set_restart {
  std::uint32_t ended = 0;         ///< number
  std::optional<set_event> begins; ///< none: it was being removed, or has started anew already
  std::string reason;              ///< with the rank that said so
  bool given_up = false;           ///< it has failed too often: nothing begins, and the generation ends

  friend bool operator==(const set_restart&, const set_restart&) = default;
};

} // namespace farandole
