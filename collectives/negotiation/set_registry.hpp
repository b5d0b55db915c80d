// Which process sets there are in a generation, and how all members agree on a change. Every member asks;
// once all have, either all asked for the same and it is done, or it fails for all of them, with the first
// two ranks that differ and both values. Either way the job goes on.
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
  /// `size`: members of the job; ranks are below it.
  explicit set_registry(std::int32_t size);

  struct answer {
    bool decided = false;          ///< all have asked
    error problem;                 ///< decided: why nothing changes, if so
    std::vector<set_event> events; ///< decided: what changes, in this order
    error breach;                  ///< this rank had asked already, and nothing was taken
  };
  answer ask(std::int32_t rank, const set_change& change);

  /// More failures of one set within the period, and it is given up, and the generation with it.
  static constexpr std::size_t most_restarts = 3;
  static constexpr std::chrono::seconds restart_period{10};

  struct recovery {
    set_restart restart; ///< for all members to hear
    error breach;        ///< there never was such a set, and nothing was taken
  };
  /// A member's part of a set has failed.
  recovery failed(std::int32_t rank, const set_fault& set_fault, std::chrono::nanoseconds current_time);

  /// By id, without the global set.
  const std::map<std::uint32_t, set_event>& sets() const { return sets_; }

private:
  answer decide();
  error difference() const;
  error wrong(const std::vector<std::int32_t>& ranks) const;
  const set_event* equal_to(const std::vector<std::int32_t>& ranks) const;
  answer found(const set_change& change);
  answer found_as_named(const set_change& change);
  answer add(const set_change& change);
  answer remove(std::uint32_t id);
  set_event begin(const std::vector<std::int32_t>& ranks);
  set_event begin(const std::vector<std::int32_t>& ranks, std::uint32_t id);

  std::vector<std::optional<set_change>> asked_; ///< by rank
  std::size_t missing_;
  std::map<std::uint32_t, set_event> sets_;
  std::map<std::uint32_t, std::deque<std::chrono::nanoseconds>> failures_; ///< by id; lately
  std::deque<std::uint32_t> free_; ///< ids of removed sets, oldest first
  std::uint32_t next_id_ = 1;
  std::uint32_t next_number_ = 1;
};

/// "[0, 2, 3]"; long lists are cut in the middle.
std::string ranks_to_text(const std::vector<std::int32_t>& ranks);

} // namespace farandole
