// A messenger over UCX, for one lane and one generation. Messages use the caller's memory, and waits end
// early on failure. A wait that fails (a peer is gone, the abort token was raised, the deadline has passed)
// first closes everything and only then returns, so the caller's memory is not accessed afterwards.
//
// Its endpoints and requests report their observations to the departure protocol, which decides which member
// to blame.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "collectives/transport/p2p/departure_protocol.hpp"
#include "collectives/transport/p2p/peer_greeting.hpp"
#include "collectives/transport/p2p/peer_messenger.hpp"
#include "collectives/transport/path.hpp"
#include "collectives/transport/ucx/ucx_context.hpp"
#include "collectives/transport/ucx/ucx_endpoints.hpp"
#include "collectives/transport/ucx/ucx_path.hpp"
#include "collectives/transport/ucx/ucx_requests.hpp"

namespace farandole {

class ucx_worker : public peer_messenger {
public:
  static expected<std::unique_ptr<ucx_worker>> open(const ucx_options& options);
  /// Sends goodbyes, then closes. Takes at most half a second.
  ~ucx_worker() override;
  ucx_worker(const ucx_worker&) = delete;
  ucx_worker& operator=(const ucx_worker&) = delete;

  std::string address() const override { return context_ ? context_->address() : std::string{}; }
  /// Creates an endpoint to each member, and verifies each by messages in both directions.
  error connect(std::span<const std::string> addresses, std::int32_t rank,
                const deadline_and_abort& deadline) override;

  std::int32_t rank() const override { return rank_; }
  std::int32_t members() const override { return members_; }

  void begin(std::uint64_t sequence, std::chrono::nanoseconds timeout) override {
    sequence_ = sequence;
    timeout_ = timeout;
  }
  void send(std::int32_t peer, message_phase phase, std::span<const std::byte> bytes,
            message_ticket& ticket) override;
  void receive(std::int32_t peer, message_phase phase, std::span<std::byte> bytes,
               message_ticket& ticket) override;

  /// Processes received messages without blocking. Call it before sending: otherwise a failed write to a
  /// closed connection could hide the goodbye of the member that closed it.
  void look() override;
  /// Blocks until all messages of the ticket are done. After an error the UCX context and its endpoints are
  /// destroyed.
  error wait(const message_ticket& ticket, const deadline_and_abort& deadline) override;
  error flush(const deadline_and_abort& deadline) override;
  void give_up(const error& reason) override;

private:
  using clock = std::chrono::steady_clock;

  ucx_worker(std::unique_ptr<ucx_context> context, const ucx_options& options);
  /// Adds a remedy to an error of connect(): the cause may be the lack of a fabric that UCX may use, or
  /// the address that it uses.
  error with_remedy(error problem) const;
  ucx_tag tag(message_phase phase, std::int32_t source) const;

  error wait_for(const std::function<bool()>& done, const deadline_and_abort& deadline);
  /// Waits briefly for a goodbye that tells why connections were closed.
  void hear_out();
  void tear_down();

  const std::uint64_t generation_;
  const std::uint32_t set_;
  const bool spins_;
  const bool trusted_network_;
  const std::string ip_; ///< of the links between members
  departure_protocol departure_;
  std::chrono::nanoseconds timeout_{0}; ///< how long the work may be without progress
  peer_greeting greeting_;
  std::unique_ptr<ucx_context> context_; ///< null once torn down
  ucx_endpoints endpoints_;
  ucx_requests requests_;
  std::int32_t rank_ = 0;
  std::int32_t members_ = 0;
  std::uint64_t sequence_ = 0;
  bool connecting_ = false;
};

} // namespace farandole
