// The process sets of a generation, and the agreement of all members on changes. Every member requests the change.
// Once all have, the change is made if all requests are equal. Otherwise it fails on all members, with an error
// that names the first two ranks that differ and both values. The job continues in both cases.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/set_change.hpp"

namespace farandole {

class set_registry {
public:
  /// `size`: number of members of the job.
  explicit set_registry(std::int32_t size);

  struct answer {
    bool decided = false;          ///< all members have asked
    error problem;                 ///< if decided: why the change is refused, if so
    std::vector<set_event> events; ///< if decided: the changes, in this order
    error breach;                  ///< the request breaks the protocol and was ignored
  };
  answer ask(std::int32_t rank, const set_change& change);

  /// A set that fails more often than this within the period is given up, and the generation ends.
  static constexpr std::size_t most_restarts = 3;
  static constexpr std::chrono::seconds restart_period{10};

  struct recovery {
    set_restart restart; ///< to be sent to all members
    error breach;        ///< no such set ever existed; the report was ignored
  };
  /// A member reports that its part of a set has failed.
  recovery failed(std::int32_t rank, const set_fault& set_fault, std::chrono::nanoseconds current_time);

  /// The sets by id, without the global set.
  const std::map<std::uint32_t, set_event>& sets() const { return sets_; }

private:
  answer decide();
  error difference() const;
  error wrong(const std::vector<std::int32_t>& ranks) const;
  const set_event* equal_to(const std::vector<std::int32_t>& ranks) const;
  answer create(const set_change& change);
  answer create_as_named(const set_change& change);
  answer add(const set_change& change);
  answer remove(std::uint32_t id);
  set_event begin(const std::vector<std::int32_t>& ranks);
  set_event begin(const std::vector<std::int32_t>& ranks, std::uint32_t id);

  std::vector<std::optional<set_change>> asked_; ///< by rank
  std::size_t missing_;
  std::map<std::uint32_t, set_event> sets_;
  std::map<std::uint32_t, std::deque<std::chrono::nanoseconds>> failures_; ///< recent ones, by id
  std::deque<std::uint32_t> free_; ///< ids of removed sets, oldest first
  std::uint32_t next_id_ = 1;
  std::uint32_t next_number_ = 1;
};

/// "[0, 2, 3]"; long lists are cut in the middle.
std::string ranks_to_text(const std::vector<std::int32_t>& ranks);

} // namespace farandole
