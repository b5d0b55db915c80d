// A messenger over Gloo, for one lane and one generation. Messages are sent from and received into the
// caller's memory directly, and waits end early on failure. A wait that fails (a peer is gone, the abort token
// was raised, the deadline has passed) first closes every connection and only then returns, so that memory is
// not accessed afterwards.
//
// Members that leave send a goodbye with the reason (departure_protocol.hpp). A goodbye also names the
// message for which its sender waited. Messages of different lengths never match in Gloo; two members that
// disagree about a length learn it from each other's goodbyes.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/transport/gloo/gloo_goodbyes.hpp"
#include "collectives/transport/gloo/gloo_mesh.hpp"
#include "collectives/transport/gloo/gloo_path.hpp"
#include "collectives/transport/gloo/gloo_watch.hpp"
#include "collectives/transport/p2p/departure_protocol.hpp"
#include "collectives/transport/p2p/peer_greeting.hpp"
#include "collectives/transport/p2p/peer_messenger.hpp"

namespace farandole {

/// Must be used on a thread that blocks SIGPIPE, as lanes do, because Gloo writes to connections that may be
/// closed.
class gloo_worker : public peer_messenger {
public:
  static expected<std::unique_ptr<gloo_worker>> open(const gloo_options& options);
  /// Uses a mesh that already listens.
  gloo_worker(const gloo_options& options, std::unique_ptr<gloo_mesh> mesh);
  /// Leaves in order unless the worker has failed.
  ~gloo_worker() override;
  gloo_worker(const gloo_worker&) = delete;
  gloo_worker& operator=(const gloo_worker&) = delete;

  /// The addresses at which this member expects each of the others.
  std::string address() const override;
  /// Connects to each member, and verifies each connection by a message in each direction.
  error connect(std::span<const std::string> addresses, std::int32_t rank,
                const deadline_and_abort& deadline) override;

  std::int32_t rank() const override { return rank_; }
  std::int32_t members() const override { return members_; }
  void send(std::int32_t peer, message_phase phase, std::span<const std::byte> bytes,
            message_ticket& ticket) override;
  void receive(std::int32_t peer, message_phase phase, std::span<std::byte> bytes,
               message_ticket& ticket) override;
  // Gloo has its own thread, which receives and sends, and it matches messages by their order.
  void look() override {}
  void begin(std::uint64_t /*sequence*/, std::chrono::nanoseconds timeout) override { timeout_ = timeout; }
  error flush(const deadline_and_abort& /*until*/) override { return {}; }
  error wait(const message_ticket& ticket, const deadline_and_abort& deadline) override;
  void give_up(const error& reason) override;

private:
  using clock = std::chrono::steady_clock;

  struct record {
    std::unique_ptr<gloo_message> message;
    message_ticket* ticket = nullptr;
    awaited_message awaited;
  };

  void keep(record begun, const std::string& problem);
  /// Waits for a message, until `limit` at the latest. Returns the error text; empty if the message is done.
  std::string wait_for(const record& pending, const deadline_and_abort& deadline, clock::time_point limit);
  /// Waits briefly for a goodbye that tells why connections were closed.
  void hear_out();
  /// Leaves after a failure, and returns the failure. Requires that the departure protocol knows one.
  error end();
  void leave();
  void say(const goodbye_round& parting);

  const std::int32_t rank_;
  const std::int32_t members_;
  departure_protocol departure_;
  peer_greeting greeting_;
  gloo_goodbyes goodbyes_;
  goodbye::encoded spoken_{};
  awaited_message awaited_;             ///< the message whose wait failed
  std::chrono::nanoseconds timeout_{0}; ///< how long the work may be without progress

  std::unique_ptr<gloo_mesh> mesh_; ///< null after leave()
  std::vector<record> under_way_;
  gloo_watch watch_; ///< last: its thread reads the other members
};

} // namespace farandole
