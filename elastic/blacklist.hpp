// A host whose worker failed gets no new workers: permanently, or for a time that roughly doubles each time.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "messages/wire/failed_host.hpp"

namespace farandole {

class blacklist {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// Bounds of the cooldown. The n-th blacklisting (from 0) lasts lowest * 2^n + uniform * lowest, at least
  /// `lowest` and at most `highest`.
  struct cooldown {
    std::chrono::seconds lowest{1};
    std::chrono::seconds highest{1};
  };

  /// Without a cooldown, hosts stay on the list permanently.
  explicit blacklist(std::optional<cooldown> range = {}) : range_(range) {}

  /// Adds a host. `uniform` in [0, 1) is jitter that keeps hosts that failed together from returning
  /// together. A host that is on the list keeps its deadline: several workers that fail at once count as one
  /// failure of their host. Returns whether the host is new on the list.
  bool add(const std::string& host, time_point current_time, double uniform);

  bool holds(const std::string& host, time_point current_time) const;
  /// When a host comes off the list; empty if it never does, or is not on the list.
  std::optional<time_point> returns_at(const std::string& host, time_point current_time) const;
  /// The earliest time at which a host comes off the list; empty if none ever does.
  std::optional<time_point> next_return(time_point current_time) const;

  /// All hosts that were ever on the list, for restore() in another process.
  std::vector<failed_host> image(time_point current_time, wall_time wall) const;
  /// Restores the image() of another process. This blacklist must be empty. Its own cooldown applies: no host
  /// stays longer than `highest`, even if the wall clocks of the two processes differ, and with a cooldown no
  /// host stays permanently.
  void restore(const std::vector<failed_host>& hosts, time_point current_time, wall_time wall);

private:
  struct record {
    std::int32_t times = 0;
    time_point deadline{}; ///< time_point::max(): permanently
  };

  std::optional<cooldown> range_;
  std::map<std::string, record> hosts_; ///< all that were ever on the list
};

} // namespace farandole
