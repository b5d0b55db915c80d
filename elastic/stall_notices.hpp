// Decides what the rendezvous is told about the stalled tensors of one process set, as one source sees them: the leader
// of the set, or one member's fast path. A notice contains all of them, so a later one replaces an earlier one, and a
// rendezvous that was restarted soon knows them again.
#pragma once

#include <chrono>
#include <optional>
#include <span>

#include "messages/wire/stalls.hpp"

namespace farandole {

class stall_notices {
public:
  stall_notices() = default;
  stall_notices(stall_source source, std::chrono::nanoseconds warning) : warning_(warning) {
    last_.source = source;
  }

  /// `stalls`: the tensors that have waited for longer than the notice time. Returns the notice to send now, if any:
  /// when the tensors or the missing ranks have changed, when the first tensor has waited for longer than the warning
  /// time, and each time the warning time has passed since the last notice.
  std::optional<stall_notice> update(std::span<const stalled_tensor> stalls,
                                     std::chrono::nanoseconds current_time);

private:
  std::chrono::nanoseconds warning_{0};
  stall_notice last_; ///< the last notice that was sent; at first that nothing is stalled
  std::chrono::nanoseconds last_time_{0};
  bool overdue_ = false; ///< the last notice had a tensor that had waited for longer than the warning time
};

} // namespace farandole
