// The hosts of an elastic job according to the last result of discovery, and those that may get new workers.
// Hosts that stay keep their order and new ones are appended, so that workers that stay keep the order of
// their ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "elastic/blacklist.hpp"
#include "elastic/host_slots.hpp"

namespace farandole {

class host_pool {
public:
  using time_point = blacklist::time_point;

  /// The hosts whose number of slots grew or shrank, each with the difference.
  struct change {
    std::vector<host_slots> added;
    std::vector<host_slots> removed;
  };

  explicit host_pool(std::optional<blacklist::cooldown> range = {}) : blacklist_(range) {}

  /// Replaces all hosts by a result of discovery, which names no host twice.
  change update(const std::vector<host_slots>& found);

  /// A worker on this host has failed. Returns whether the host is new on the blacklist.
  bool fail(const std::string& host, time_point current_time, double uniform) {
    return blacklist_.add(host, current_time, uniform);
  }
  const blacklist& failed() const { return blacklist_; }
  blacklist& failed() { return blacklist_; }

  const std::vector<host_slots>& hosts() const { return hosts_; }
  /// The slots of a host; 0 if it is unknown. A blacklisted host keeps them: its workers continue to run.
  std::int32_t slots(const std::string& host) const;
  /// Hosts that may get new workers, in order.
  std::vector<host_slots> usable(time_point current_time) const;

private:
  std::vector<host_slots> hosts_;
  blacklist blacklist_;
};

} // namespace farandole
