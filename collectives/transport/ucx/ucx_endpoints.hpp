// UCX's connections to the other members, by rank. Broken connections are reported to the departure protocol.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/transport/p2p/departure_protocol.hpp"
#include "collectives/transport/ucx/ucx_context.hpp"

namespace farandole {

class ucx_endpoints {
public:
  using clock = std::chrono::steady_clock;

  /// Both must outlive all open endpoints.
  ucx_endpoints(ucx_context& context, departure_protocol& departing)
      : context_(context), departure_(departing) {}
  ucx_endpoints(const ucx_endpoints&) = delete;
  ucx_endpoints& operator=(const ucx_endpoints&) = delete;

  /// Creates an endpoint to each address except this member's own. Returns an error if a member has no
  /// address. Errors of UCX are reported to the departure protocol as lost connections.
  error create(std::span<const std::string> addresses, std::int32_t rank);
  /// The endpoint to the peer; null if there is none or it has been closed.
  ucp_ep_h to(std::int32_t peer) const { return table_[static_cast<std::size_t>(peer)].handle; }

  /// Waits until UCX has sent all messages that it has accepted.
  void flush(clock::time_point deadline);
  /// Closes the working endpoints by a handshake with their peers.
  void close(clock::time_point deadline);
  /// Closes the remaining endpoints at once. The worker must not be driven again before it is destroyed: a
  /// half-sent message has been dropped, and the messages queued behind it would reach the peer as its other
  /// half (UCX 1.13; the peer then fails an assertion).
  void break_all();

private:
  struct endpoint {
    ucx_endpoints* owner = nullptr;
    ucp_ep_h handle = nullptr;
    bool broken = false; ///< its error handler was called
  };

  static void on_broken(void* owner, ucp_ep_h handle, ucs_status_t status);

  ucx_context& context_;
  departure_protocol& departure_;
  std::vector<endpoint> table_; ///< never resized once created, since UCX knows the addresses
};

} // namespace farandole
