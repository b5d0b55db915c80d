// Where higher ranks call: accepts connections, lets connections/handshake_table.hpp decide which of them may
// begin a handshake and which must go, and gives away those that have proved that they are members. A
// stranger costs it a descriptor and an entry in that table, for a second.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "collectives/transport/connections/handshake_table.hpp"
#include "collectives/transport/tcp/channel_talk.hpp"
#include "messages/values/descriptor.hpp"

namespace farandole {

class channel_listener {
public:
  using clock = std::chrono::steady_clock;

  /// An empty socket: nobody calls. There are places for all members, beyond those of `limits`.
  channel_listener(descriptor socket, std::shared_ptr<const tls_credentials> credentials,
                   const channel_group& group, chunk_suite preferred, const handshake_limits& limits);

  /// Addresses of hosts from which members call: they are served first.
  void expect(std::set<std::string> sources) { table_.expect(std::move(sources)); }

  /// What poll() must look at, added to `polls`.
  void watch(std::vector<pollfd>& polls) const;
  std::size_t watched() const { return 1 + callers_.size(); }
  /// Goes on where poll() has found something; `polled` are those that watch() added.
  void step(std::span<const pollfd> polled, clock::time_point current_time);

  /// Those who have proved who they are since the last call.
  std::vector<met_peer> take_proven();
  /// Somebody who said something, or nothing for too long, was turned away; the last is remembered.
  void refuse(int socket, const std::string& reason);
  std::size_t refused() const { return refused_; }
  const std::string& last_refused() const { return last_refused_; }

private:
  struct caller {
    channel_talk talk; ///< without a handshake until the table lets it begin
    bool waits = true; ///< for its first record
  };
  using number = handshake_table::connection;

  void hear(number which, caller& from);
  void accept_callers(clock::time_point current_time);
  void begin_handshakes(clock::time_point current_time);
  void advance(caller& with);
  void evict(const handshake_table::eviction& eviction);
  void forget_if_closed(number which);

  descriptor socket_;
  const std::shared_ptr<const tls_credentials> credentials_;
  const channel_group group_;
  const chunk_suite preferred_;
  const handshake_limits limits_;
  handshake_table table_;
  std::map<number, caller> callers_; ///< those in the table
  number next_ = 0;
  std::optional<clock::time_point> paused_until_; ///< for want of descriptors
  std::vector<met_peer> proven_;
  std::size_t refused_ = 0;
  std::string last_refused_;
};

} // namespace farandole
