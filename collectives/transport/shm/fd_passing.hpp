// Passes the file descriptor of the shared segment from the member that created it to the other members of
// its host, over an abstract Unix socket with a random name. Before the descriptor is sent, both sides prove
// that they know the job's secret (HMAC-SHA256 over fresh nonces of both) and check that the peer runs as the
// same user. Unauthenticated peers are refused, and the offer stays open. All calls block; a lane calls them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "collectives/transport/connections/handshake_table.hpp"
#include "collectives/transport/path.hpp"
#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Values that must be equal on both sides. They enter the HMAC proofs and are never sent.
struct fd_passing_terms {
  std::string secret;
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
};

class segment_offer {
public:
  /// Opens the socket. Peers can connect from now on; serve() answers them.
  static expected<std::unique_ptr<segment_offer>> open();

  /// Name of the socket, which the peers receive as this member's path address.
  const std::string& name() const { return name_; }

  /// Sends the descriptor `shared` to members 1 … members-1, to each as often as it asks, and returns when
  /// every member has it. Returns `disconnected` after an abort and `timed_out` at the deadline.
  error serve(const fd_passing_terms& terms, int shared, std::uint32_t members,
              const deadline_and_abort& deadline, const handshake_limits& limits = {});

private:
  segment_offer(std::string name, descriptor listener);

  std::string name_;
  descriptor listener_;
};

/// Requests the descriptor from the offer of that name, as member `member` (≥ 1). Retries while the offer
/// does not exist yet or the connection breaks. Returns `precondition` if the offer cannot prove that it
/// knows the secret.
expected<descriptor> take_segment(const std::string& name, const fd_passing_terms& terms,
                                  std::uint32_t member, const deadline_and_abort& deadline);

} // namespace farandole
