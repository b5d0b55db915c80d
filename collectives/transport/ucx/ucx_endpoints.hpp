// UCX's connections to the other members, by rank. What becomes of them is reported to the departure
// protocol.
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

  /// Both outlive the endpoints that are not closed.
  ucx_endpoints(ucx_context& context, departure_protocol& departing)
      : context_(context), departure_(departing) {}
  ucx_endpoints(const ucx_endpoints&) = delete;
  ucx_endpoints& operator=(const ucx_endpoints&) = delete;

  /// One to each address but this member's own. The error is of a member that has no address; UCX's own are
  /// reported as lost connections.
  error create(std::span<const std::string> addresses, std::int32_t rank);
  /// Null: there is none, or not any more.
  ucp_ep_h to(std::int32_t peer) const { return table_[static_cast<std::size_t>(peer)].handle; }

  /// Waits until UCX has passed on what it was given to send.
  void flush(clock::time_point deadline);
  /// Closes those that work in agreement with their peers.
  void close(clock::time_point deadline);
  /// Closes what is left at once. Nothing may be driven any further before the worker is destroyed: what is
  /// half sent has been dropped, and what was queued behind it would reach the peer as the other half (UCX
  /// 1.13; the peer then fails an assertion).
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
