// Which operation of other ranks does an operation without a name belong to? Ranks match them by the order of
// their calls, so each is named after how many calls of its kind came before it in the same process set.
// Ranks need not call equally many: one that joins early has called fewer, and one may be told that a set was
// started anew before it came to a call that others had made. All ranks pass these points, though, so the
// count begins anew there; after a join the names also hold how many there were, because operations from
// before it may still be in flight.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace farandole {

/// The points of a process set that all its ranks pass.
struct call_epoch {
  std::uint64_t restarts = 0; ///< of the set, as far as callers here have been told
  std::uint64_t joins = 0;    ///< global set: join operations that this rank has submitted

  friend bool operator==(const call_epoch&, const call_epoch&) = default;
};

/// One process' calls. Not thread-safe.
class unnamed_calls {
public:
  /// The name of the next call of this kind (`prefix`). It stays the same until a call was accepted, for a
  /// call that is refused here is none that others could match.
  std::string next_name(std::uint32_t set, std::string_view prefix, const call_epoch& current);
  /// The call of that name was submitted.
  void accepted(std::uint32_t set, std::string_view prefix);
  /// The set that has this id now is another one than before.
  void count_anew(std::uint32_t set) { sets_.erase(set); }

private:
  struct counts {
    call_epoch epoch;
    std::map<std::string, std::uint64_t, std::less<>> by_prefix;
  };
  std::map<std::uint32_t, counts> sets_;
};

} // namespace farandole
