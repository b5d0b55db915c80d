// Names for operations that have none. Ranks match these by the order of their calls, so each operation is named
// after the number of earlier calls of its kind in the same process set. Ranks need not make equally many calls: a
// rank that joins early has made fewer, and a rank may be told of a set's restart before it came to a call that
// others had made. But all ranks pass these points, so the count begins anew there. After a join the names also
// hold the number of joins, because operations from before it may still be in flight.
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
  /// The name of the next call of this kind (`prefix`). It stays the same until a call is accepted: other ranks
  /// cannot match a call that was refused here.
  std::string next_name(std::uint32_t set, std::string_view prefix, const call_epoch& current);
  /// The call of that name was submitted.
  void accepted(std::uint32_t set, std::string_view prefix);
  /// This id belongs to another set now than before.
  void count_anew(std::uint32_t set) { sets_.erase(set); }

private:
  struct counts {
    call_epoch epoch;
    std::map<std::string, std::uint64_t, std::less<>> by_prefix;
  };
  std::map<std::uint32_t, counts> sets_;
};

} // namespace farandole
