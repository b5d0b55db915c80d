// Planned departures that a user requested: which workers leave, whether enough members remain, and when the
// processes of all leaving workers have ended. Pure decisions without actors, sockets or clocks.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "messages/wire/drain.hpp"

namespace farandole {

/// A worker of the job, as plan_drain() sees it.
struct drain_candidate {
  leaver departing;
  bool leaves = false; ///< it is leaving already
};

/// Selects the workers that leave: the members of the ranks in `asked`, and every worker on its hosts. Sets
/// only `problem` if a rank or host does not exist, if there are no members yet, or if fewer than `fewest`
/// members would remain.
draining plan_drain(const drain& asked, const std::vector<drain_candidate>& workers, std::int32_t fewest);

/// Tracks which requests wait for the end of which processes. The caller chooses a ticket for each request.
class drain_watch {
public:
  using ticket = std::uint64_t;

  void add(ticket request_ticket, const std::vector<leaver>& leavers);
  /// The process of this slot has ended. Returns the requests that now wait for no other process, with all
  /// their leavers.
  std::vector<std::pair<ticket, std::vector<leaver>>> ended(std::int32_t slot);

private:
  struct wait {
    ticket request_ticket = 0;
    std::vector<leaver> leavers;
    std::set<std::int32_t> missing;
  };
  std::vector<wait> waits_;
};

} // namespace farandole
