// Connects the members of a path to each other. The higher rank of each pair connects, the lower one
// listens (channel_listener.hpp), and both authenticate each other. A member that was refused, or whose
// connection attempt timed out, tries again with exponential backoff.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/transport/tcp/channel_listener.hpp"
#include "collectives/transport/tcp/channel_talk.hpp"
#include "collectives/transport/tcp/tcp_address.hpp"
#include "messages/values/descriptor.hpp"

namespace farandole {

struct meeting_limits {
  handshake_limits callers;               ///< limits of the listener
  std::chrono::milliseconds call{20'000}; ///< time limit of one attempt; longer than the limits of a listener
};

class tcp_meeting {
public:
  using clock = std::chrono::steady_clock;

  tcp_meeting(descriptor listener, std::shared_ptr<const tls_credentials> credentials,
              const channel_group& group, chunk_suite preferred, const meeting_limits& bounds = {});

  /// Starts to connect to all lower ranks and expects connections from the higher ones. `addresses`: of all
  /// members, by rank. Fails if the address of a lower rank is invalid.
  error call(std::span<const std::string> addresses, clock::time_point current_time);

  /// Appends to `polls` the descriptors for poll().
  void watch(std::vector<pollfd>& polls) const;
  /// Processes the results of poll(). `polled` are the entries that watch() appended.
  void step(std::span<const pollfd> polled, clock::time_point current_time);

  /// Returns the members that were connected since the last call.
  std::vector<met_peer> take_met();
  /// Whether all members are connected, except those that can never be.
  bool complete() const { return missing_ == lost_; }
  /// Stops waiting for a member, for example because another member reported it as failed.
  void wait_no_more_for(std::int32_t rank);
  /// A member that can never be connected, and the reason. take_failure() returns each failure once.
  struct failure {
    std::int32_t rank = -1;
    std::string reason;
  };
  std::optional<failure> take_failure();

  bool has_met(std::int32_t rank) const { return met_[static_cast<std::size_t>(rank)]; }
  /// Why this rank is not connected yet, as far as this member knows.
  std::string trouble(std::int32_t rank) const;
  /// Number of connections that the listener refused, and the reason of the last one.
  std::size_t refused() const { return listener_.refused(); }
  const std::string& last_refused() const { return listener_.last_refused(); }

private:
  struct outgoing_call {
    channel_talk talk;
    std::int32_t rank = -1; ///< rank of the peer
    bool connecting = false;
    clock::time_point since; ///< start of the last attempt
    clock::time_point next_call;
    int hang_ups = 0;
    std::string trouble;
  };

  void dial(outgoing_call& to, clock::time_point current_time);
  void refuse_or_retry(outgoing_call& to, int number, const std::string& reason,
                       clock::time_point current_time);
  void lose(outgoing_call& to, const std::string& reason);
  void hang_up(outgoing_call& to, const std::string& reason, clock::time_point current_time);
  void step_call(outgoing_call& to, short events, clock::time_point current_time);
  /// How far the last attempt got, for error texts.
  std::string progress(const outgoing_call& to) const;
  void settle(met_peer peer);

  const std::shared_ptr<const tls_credentials> credentials_;
  const channel_group group_;
  const chunk_suite preferred_;
  const meeting_limits bounds_;
  std::vector<tcp_address> addresses_; ///< addresses of the lower ranks, by rank
  channel_listener listener_;
  std::vector<outgoing_call> calls_; ///< attempts to the lower ranks, by rank
  std::vector<bool> met_;
  std::int32_t missing_ = 0;
  std::vector<bool> gone_; ///< by rank: can never be connected
  std::int32_t lost_ = 0;  ///< number of missing members that can never be connected
  std::vector<met_peer> fresh_;
  std::vector<failure> failures_;
};

} // namespace farandole
