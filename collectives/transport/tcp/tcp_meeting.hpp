// How the members of a path connect to each other: the higher rank calls, the lower one listens
// (channel_listener.hpp), and both prove who they are. A member that was turned away, or whose call was not
// answered for long, calls again.
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
  handshake_limits callers;               ///< at the listener
  std::chrono::milliseconds call{20'000}; ///< from calling to having met; longer than a listener allows
};

class tcp_meeting {
public:
  using clock = std::chrono::steady_clock;

  tcp_meeting(descriptor listener, std::shared_ptr<const tls_credentials> credentials,
              const channel_group& group, chunk_suite preferred, const meeting_limits& bounds = {});

  /// Calls all lower ranks, and expects the higher ones. `addresses` of all members, by rank; an error names
  /// the text that is none.
  error call(std::span<const std::string> addresses, clock::time_point current_time);

  /// What poll() must look at, added to `polls`.
  void watch(std::vector<pollfd>& polls) const;
  /// Goes on where poll() has found something; `polled` are those that watch() added.
  void step(std::span<const pollfd> polled, clock::time_point current_time);

  /// Those met since the last call.
  std::vector<met_peer> take_met();
  /// Everybody has been met, but for those that can never be.
  bool complete() const { return missing_ == lost_; }
  /// For somebody else knows that it is gone.
  void wait_no_more_for(std::int32_t rank);
  /// A member that can never be met, and why; told once.
  struct failure {
    std::int32_t rank = -1;
    std::string reason;
  };
  std::optional<failure> take_failure();

  bool has_met(std::int32_t rank) const { return met_[static_cast<std::size_t>(rank)]; }
  /// Why this rank has not been met so far, as far as this member knows.
  std::string trouble(std::int32_t rank) const;
  /// Callers that were turned away by the listener, and the last of them.
  std::size_t refused() const { return listener_.refused(); }
  const std::string& last_refused() const { return listener_.last_refused(); }

private:
  struct outgoing_call {
    channel_talk talk;
    std::int32_t rank = -1; ///< that is called
    bool connecting = false;
    clock::time_point since; ///< it was called last
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
  /// How far the last call has come.
  std::string progress(const outgoing_call& to) const;
  void settle(met_peer peer);

  const std::shared_ptr<const tls_credentials> credentials_;
  const channel_group group_;
  const chunk_suite preferred_;
  const meeting_limits bounds_;
  std::vector<tcp_address> addresses_; ///< by rank; of lower ranks only
  channel_listener listener_;
  std::vector<outgoing_call> calls_; ///< by rank
  std::vector<bool> met_;
  std::int32_t missing_ = 0;
  std::vector<bool> gone_; ///< never to be met
  std::int32_t lost_ = 0;  ///< of the missing
  std::vector<met_peer> fresh_;
  std::vector<failure> failures_;
};

} // namespace farandole
