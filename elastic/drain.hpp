// Some members are to leave by plan, because a person has said so: who that is, whether enough remain, and
// when the last of them is out. Plain decisions.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "messages/wire/drain.hpp"

namespace farandole {

/// A worker of the job, as a drain looks at it.
struct drain_candidate {
  leaver departing;
  bool leaves = false; ///< already
};

/// Who leaves: the members of these ranks, and every worker on these hosts. Or why that cannot be, if fewer
/// than `fewest` members would remain, or one is named that is not there.
draining plan_drain(const drain& asked, const std::vector<drain_candidate>& workers, std::int32_t fewest);

/// Who waits for whose end. A ticket is whatever the caller calls those that wait.
class drain_watch {
public:
  using ticket = std::uint64_t;

  void add(ticket request_ticket, const std::vector<leaver>& leavers);
  /// This slot's process has ended. Those who had waited for it last.
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
