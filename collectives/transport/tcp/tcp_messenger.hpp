// The messenger over TCP: encrypted messages between members, for one lane and one generation. A wait
// drives all connections in both directions at once, so members that send each other much data at the same
// time never block each other. A wait that fails (a peer is gone, the abort token was raised, the deadline
// passed) closes all connections before it returns, so no memory of the caller is accessed afterwards.
//
// A member that leaves sends a goodbye with the reason (departure_protocol.hpp).
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/transport/p2p/departure_protocol.hpp"
#include "collectives/transport/p2p/peer_messenger.hpp"
#include "collectives/transport/tcp/tcp_channel.hpp"
#include "collectives/transport/tcp/tcp_meeting.hpp"
#include "collectives/transport/tcp/tcp_path.hpp"
#include "collectives/transport/wait/yield_policy.hpp"

namespace farandole {

class tcp_messenger : public peer_messenger {
public:
  static expected<std::unique_ptr<tcp_messenger>> open(const tcp_options& options);
  /// Sends goodbyes, for at most half a second.
  ~tcp_messenger() override;
  tcp_messenger(const tcp_messenger&) = delete;
  tcp_messenger& operator=(const tcp_messenger&) = delete;

  std::string address() const override { return address_; }
  error connect(std::span<const std::string> addresses, std::int32_t rank,
                const deadline_and_abort& deadline) override;
  std::string remark() const override { return remark_; }

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
  void look() override;
  error wait(const message_ticket& ticket, const deadline_and_abort& deadline) override;
  std::chrono::nanoseconds waited() const override { return waited_; }
  error flush(const deadline_and_abort& deadline) override;
  void give_up(const error& reason) override;

private:
  using clock = std::chrono::steady_clock;

  explicit tcp_messenger(const tcp_options& options);
  error meet(const deadline_and_abort& deadline);
  void meet_some(const deadline_and_abort& deadline);
  /// The first member that is not connected yet, and the reason; empty: all are connected.
  std::string missing() const;
  /// A summary of the connections that the listener refused; usually empty.
  std::string refusals() const;
  void tell_missing(const std::string& missing);
  tcp_channel* channel_to(std::int32_t peer, message_ticket& ticket);

  error wait_for(const std::function<bool()>& done, const deadline_and_abort& deadline);
  /// Busy-polls for as long as a wake-up from sleep would take. Returns whether any data moved.
  bool look_before_sleep();
  /// Moves data on all connections, after it has waited for at most `patience_ms`. Returns whether any data
  /// moved.
  bool turn(int patience_ms);
  bool turn_without_polling();
  /// Reports the goodbye, violation or end of a channel to departure_.
  void heed(std::int32_t peer);
  /// Waits for a short time for a goodbye that says why connections were closed.
  void hear_out();
  void leave();
  void tear_down();

  const tcp_options options_;
  yield_policy yield_policy_{false};
  departure_protocol departure_;
  descriptor listener_;
  std::string address_;
  std::unique_ptr<tcp_meeting> meeting_;               ///< only during connect()
  std::vector<std::unique_ptr<tcp_channel>> channels_; ///< by rank; null: this member, or not connected yet
  std::vector<pollfd> polls_;
  std::string remark_;
  std::string told_missing_; ///< last text passed to tcp_options::meeting_news
  std::int32_t rank_ = 0;
  std::int32_t members_ = 0;
  std::uint64_t sequence_ = 0;
  std::chrono::nanoseconds waited_{0};
  std::chrono::nanoseconds timeout_{0}; ///< how long the work may be without progress
  bool closed_ = false;
};

} // namespace farandole
