// How the members of a path connect to each other: the higher rank calls, the lower one listens, and both
// prove who they are. Anybody can reach the listener, so a stranger costs it nothing but one of a bounded
// number of places: who says nothing for long has to leave, the oldest first, and what proves nothing is
// closed at once. A member that was turned away for want of places calls again.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/paths/tcp/channel_handshake.hpp"
#include "collectives/paths/tcp/tcp_address.hpp"
#include "messages/descriptor.hpp"

namespace farandole {

struct meeting_limits {
  std::size_t places = 256;                   ///< handshakes at once, beyond one for each member
  std::chrono::milliseconds silence{1000};    ///< of a caller that has said nothing yet
  std::chrono::milliseconds handshake{10000}; ///< of one that has
};

/// A member that has been met.
struct met_peer {
  std::int32_t rank = -1;
  descriptor socket;
  channel_keys keys;
  std::vector<std::byte> early; ///< chunks that have come already
};

class tcp_meeting {
public:
  using clock = std::chrono::steady_clock;

  tcp_meeting(descriptor listener, std::shared_ptr<const tls_credentials> credentials,
              const channel_group& group, chunk_suite preferred, const meeting_limits& bounds = {});

  /// Calls all lower ranks. `addresses` of all members, by rank; an error names the rank that has none.
  error call(std::span<const std::string> addresses, clock::time_point now);

  /// What poll() must look at, added to `polls`.
  void watch(std::vector<pollfd>& polls) const;
  /// Goes on where poll() has found something; `polled` are those that watch() added.
  void step(std::span<const pollfd> polled, clock::time_point now);

  /// Those met since the last call.
  std::vector<met_peer> take_met();
  /// Everybody has been met, but for those who can never be.
  bool complete() const { return missing_ == lost_; }
  /// For somebody else knows that it is gone.
  void wait_no_more_for(std::int32_t rank);
  /// A member that can never be met, and why; told once.
  struct failure {
    std::int32_t rank = -1;
    std::string why;
  };
  std::optional<failure> take_failure();

  bool has_met(std::int32_t rank) const { return met_[static_cast<std::size_t>(rank)]; }
  /// Why this rank, which is called, has not been met so far; mostly empty.
  std::string trouble(std::int32_t rank) const;
  /// Callers that were refused because of what they said, and the last of them.
  std::size_t refused() const { return refused_; }
  const std::string& last_refused() const { return last_refused_; }

private:
  struct talk {
    descriptor socket;
    std::unique_ptr<channel_handshake> handshake;
    std::vector<std::byte> wire; ///< still to be sent
    clock::time_point since;     ///< it called
    bool spoke = false;
    bool silent = true;     ///< it has not sent a whole hello under the job's key
    std::int32_t rank = -1; ///< that is called
    bool connecting = false;
    clock::time_point next_call;
    std::chrono::milliseconds backoff{5};
    std::string trouble;
  };

  void dial(talk& to, clock::time_point now);
  void refuse_or_retry(talk& to, int number, const std::string& why, clock::time_point now);
  void lose(talk& to, const std::string& why);
  void hang_up(talk& to, const std::string& why, clock::time_point now);
  void accept_callers(clock::time_point now);
  void make_place();
  /// An error closes the talk; whether it is done is told by its handshake.
  error advance(talk& with, std::vector<std::byte>& early);
  error send_wire(talk& with);
  void settle(talk& with, std::vector<std::byte> early);
  void step_caller(talk& with);
  void step_call(talk& to, short events, clock::time_point now);
  static pollfd poll_of(const talk& with);

  descriptor listener_;
  const std::shared_ptr<const tls_credentials> credentials_;
  const channel_group group_;
  const chunk_suite preferred_;
  const meeting_limits bounds_;
  std::vector<tcp_address> addresses_; ///< by rank; of lower ranks only
  std::vector<talk> callers_;
  std::vector<talk> calls_; ///< by rank
  std::vector<bool> met_;
  std::int32_t missing_ = 0;
  std::vector<bool> gone_; ///< never to be met
  std::int32_t lost_ = 0;  ///< of the missing
  std::vector<met_peer> fresh_;
  std::vector<failure> failures_;
  std::size_t refused_ = 0;
  std::string last_refused_;
};

} // namespace farandole
