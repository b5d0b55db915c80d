// A messenger over Gloo, for one lane and one generation: messages straight out of and into the caller's
// memory, and waits that end by themselves. A wait that fails (a peer is gone, the abort token was raised,
// the deadline passed) first closes every connection; only then does it return, so no memory is touched
// behind its back.
//
// Members that leave say goodbye and why (departure_protocol.hpp). A goodbye also tells which message its
// sender waited for: two members that disagree about the length of a message, which never meet in Gloo, find
// out from it.
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

/// Used on a thread that blocks SIGPIPE, as lanes do: Gloo writes to connections that may be gone.
class gloo_worker : public peer_messenger {
public:
  static expected<std::unique_ptr<gloo_worker>> open(const gloo_options& options);
  /// Over a mesh that listens already.
  gloo_worker(const gloo_options& options, std::unique_ptr<gloo_mesh> mesh);
  /// Leaves in order, unless it has failed.
  ~gloo_worker() override;
  gloo_worker(const gloo_worker&) = delete;
  gloo_worker& operator=(const gloo_worker&) = delete;

  /// Where this member expects each of the others.
  std::string address() const override;
  /// Makes a connection to each member and proves it with a message each way.
  error connect(std::span<const std::string> addresses, std::int32_t rank,
                const deadline_and_abort& deadline) override;

  std::int32_t rank() const override { return rank_; }
  std::int32_t members() const override { return members_; }
  void send(std::int32_t peer, message_phase phase, std::span<const std::byte> bytes,
            message_ticket& ticket) override;
  void receive(std::int32_t peer, message_phase phase, std::span<std::byte> bytes,
               message_ticket& ticket) override;
  // Gloo has a thread of its own that takes in and sends, and matches messages by their order.
  void look() override {}
  void begin(std::uint64_t /*sequence*/) override {}
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
  /// Empty: the message is done.
  std::string wait_for(const record& pending, const deadline_and_abort& deadline);
  /// Listens a little: perhaps a member says why connections were closed.
  void hear_out();
  /// Once the departure protocol knows a failure.
  error end();
  void leave();
  void say(const goodbye_round& parting);

  const std::int32_t rank_;
  const std::int32_t members_;
  departure_protocol departure_;
  peer_greeting greeting_;
  gloo_goodbyes goodbyes_;
  goodbye::encoded spoken_{};
  awaited_message awaited_; ///< the message that failed

  std::unique_ptr<gloo_mesh> mesh_; ///< null once left
  std::vector<record> under_way_;
  gloo_watch watch_; ///< last: it looks at the others
};

} // namespace farandole
