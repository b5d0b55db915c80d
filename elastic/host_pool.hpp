// The hosts of an elastic job, as discovery last told them, and which of their slots may get a new worker.
// Hosts that stay keep their order and new ones come after them, so that workers which stay keep their ranks'
// order.
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

  /// A host stands in one of the lists when its slots grew or shrank, with the difference.
  struct change {
    std::vector<host_slots> added;
    std::vector<host_slots> removed;
  };

  explicit host_pool(std::optional<blacklist::cooldown> range = {}) : blacklist_(range) {}

  /// Takes a whole result of discovery, which names no host twice.
  change update(const std::vector<host_slots>& found);

  /// A worker on this host has failed. Whether the host is new on the blacklist.
  bool fail(const std::string& host, time_point current_time, double uniform) {
    return blacklist_.add(host, current_time, uniform);
  }
  const blacklist& failed() const { return blacklist_; }
  blacklist& failed() { return blacklist_; }

  const std::vector<host_slots>& hosts() const { return hosts_; }
  /// Of a host; 0 when it is not in the book. Blacklisted ones keep theirs: their workers live on.
  std::int32_t slots(const std::string& host) const;
  /// Hosts that may get new workers, in order.
  std::vector<host_slots> usable(time_point current_time) const;

private:
  std::vector<host_slots> hosts_;
  blacklist blacklist_;
};

} // namespace farandole
