// Messages between members over TCP, sealed, for one lane and one generation. A wait drives all connections
// at once, in both directions, so members that send each other a lot at the same time never block each other.
// A wait that fails (a peer is gone, the abort token was raised, the deadline passed) first closes
// everything; only then does it return, so no memory is touched behind its caller's back.
//
// Members that leave say goodbye and why (departure_protocol.hpp).
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
  /// Says goodbye, for at most half a second.
  ~tcp_messenger() override;
  tcp_messenger(const tcp_messenger&) = delete;
  tcp_messenger& operator=(const tcp_messenger&) = delete;

  std::string address() const override { return address_; }
  error connect(std::span<const std::string> addresses, std::int32_t rank,
                const deadline_and_abort& deadline) override;
  std::string remark() const override { return remark_; }

  std::int32_t rank() const override { return rank_; }
  std::int32_t members() const override { return members_; }
  void begin(std::uint64_t sequence) override { sequence_ = sequence; }
  void send(std::int32_t peer, message_phase phase, std::span<const std::byte> bytes,
            message_ticket& ticket) override;
  void receive(std::int32_t peer, message_phase phase, std::span<std::byte> bytes,
               message_ticket& ticket) override;
  void look() override;
  error wait(const message_ticket& ticket, const deadline_and_abort& deadline) override;
  error flush(const deadline_and_abort& deadline) override;
  void give_up(const error& reason) override;

private:
  using clock = std::chrono::steady_clock;

  explicit tcp_messenger(const tcp_options& options);
  error meet(const deadline_and_abort& deadline);
  void meet_some(const deadline_and_abort& deadline);
  /// The first of those that have not been met, and why; empty: all have been.
  std::string missing() const;
  /// Of callers that the listener turned away; mostly empty.
  std::string refusals() const;
  void tell_missing(const std::string& missing);
  tcp_channel* channel_to(std::int32_t peer, message_ticket& ticket);

  error wait_for(const std::function<bool()>& done, const deadline_and_abort& deadline);
  /// Looks for news for as long as a wake-up would take. Whether anything moved.
  bool look_before_sleep();
  /// Moves what can be moved, after at most so much time. Whether anything was.
  bool turn(int patience_ms);
  bool turn_without_polling();
  /// What a channel has to say of its peer.
  void heed(std::int32_t peer);
  /// Listens a little: perhaps somebody says why connections were closed.
  void hear_out();
  void leave();
  void tear_down();

  const tcp_options options_;
  yield_policy ledger_{false};
  departure_protocol departure_;
  descriptor listener_;
  std::string address_;
  std::unique_ptr<tcp_meeting> meeting_;               ///< while members meet
  std::vector<std::unique_ptr<tcp_channel>> channels_; ///< by rank; null: itself, or not met yet
  std::vector<pollfd> polls_;
  std::string remark_;
  std::string told_missing_; ///< as the options' meeting_news knows it
  std::int32_t rank_ = 0;
  std::int32_t members_ = 0;
  std::uint64_t sequence_ = 0;
  bool closed_ = false;
};

} // namespace farandole
