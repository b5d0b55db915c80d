// How a window's descriptor gets from the member that made it to its neighbours. Over an abstract Unix socket
// with a random name; both sides prove that they know the job's secret (HMAC-SHA256 over fresh nonces of
// both) and run as the same user before the descriptor passes. Strangers are refused and the offer goes on;
// all calls block, on a lane.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "collectives/transport/path.hpp"
#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// What both sides must have in common. Enters the proofs, never the socket.
struct fd_passing_terms {
  std::string secret;
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
};

class segment_offer {
public:
  /// From now on peers can connect; they are answered by serve().
  static expected<std::unique_ptr<segment_offer>> open();

  /// To tell the peers (path addresses.segment).
  const std::string& name() const { return name_; }

  /// Hands `shared` to members 1 … members-1, each as often as it asks, until each has it. `disconnected`
  /// when aborted, `timed_out` at the deadline.
  error serve(const fd_passing_terms& terms, int shared, std::uint32_t members,
              const deadline_and_abort& deadline);

private:
  segment_offer(std::string name, descriptor listener);

  std::string name_;
  descriptor listener_;
};

/// Asks the offer of that name, as `member` (≥ 1). Tries again while the offer is not there or breaks off; an
/// offer that cannot prove the secret ends it with `precondition`.
expected<descriptor> take_segment(const std::string& name, const fd_passing_terms& terms,
                                  std::uint32_t member, const deadline_and_abort& deadline);

} // namespace farandole
