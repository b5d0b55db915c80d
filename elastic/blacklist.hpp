// A host whose worker failed gets no new workers: not at all, or for a while that about doubles each time.
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

  /// Seconds, as the rule is: the n-th blacklisting (from 0) lasts lowest * 2^n + uniform * lowest, at least
  /// `lowest` and at most `highest`.
  struct cooldown {
    std::chrono::seconds lowest{1};
    std::chrono::seconds highest{1};
  };

  /// Without a cooldown hosts stay on the list for good.
  explicit blacklist(std::optional<cooldown> range = {}) : range_(range) {}

  /// `uniform` in [0, 1) keeps hosts that failed together from coming back together. A host that is on the
  /// list stays as it is: several workers that fail at once are one failure of their host. Whether it is new
  /// on the list.
  bool add(const std::string& host, time_point current_time, double uniform);

  bool holds(const std::string& host, time_point current_time) const;
  /// When a host that is on the list comes off it; nothing: never, or it is not on the list.
  std::optional<time_point> returns_at(const std::string& host, time_point current_time) const;
  /// The earliest of all.
  std::optional<time_point> next_return(time_point current_time) const;

  /// All hosts that ever were on the list, to go on from in another process.
  std::vector<failed_host> image(time_point current_time, wall_time wall) const;
  /// What another process knew; this one knows nothing yet. The rule is this one's: no host stays longer than
  /// the cooldown lets any, whatever the clocks on the walls say, and none for good where there is a
  /// cooldown.
  void restore(const std::vector<failed_host>& hosts, time_point current_time, wall_time wall);

private:
  struct record {
    std::int32_t times = 0;
    time_point deadline{}; ///< time_point::max(): for good
  };

  std::optional<cooldown> range_;
  std::map<std::string, record> hosts_; ///< those that ever were on the list
};

} // namespace farandole
