// The listener to which the higher ranks connect. It accepts connections, and
// connections/handshake_table.hpp decides which of them may start a handshake and which are closed.
// take_proven() returns the authenticated members. A connection that sends no TLS hello costs a descriptor
// and an entry in the table, for one second.
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

  /// `socket` may be empty if no member connects to this one. The table has room for all members in
  /// addition to `limits`.
  channel_listener(descriptor socket, std::shared_ptr<const tls_credentials> credentials,
                   const channel_group& group, chunk_suite preferred, const handshake_limits& limits);

  /// Sets the addresses of the hosts from which members connect. Their connections are served first.
  void expect(std::set<std::string> sources) { table_.expect(std::move(sources)); }

  /// Appends to `polls` the descriptors for poll().
  void watch(std::vector<pollfd>& polls) const;
  std::size_t watched() const { return 1 + callers_.size(); }
  /// Processes the results of poll(). `polled` are the entries that watch() appended.
  void step(std::span<const pollfd> polled, clock::time_point current_time);

  /// Returns the members that were authenticated since the last call.
  std::vector<met_peer> take_proven();
  /// Counts a refused connection and remembers its reason. Connections that send nothing count once their
  /// time has passed, not if they close before.
  void refuse(int socket, const std::string& reason);
  std::size_t refused() const { return refused_; }
  const std::string& last_refused() const { return last_refused_; }

private:
  struct caller {
    channel_talk talk; ///< has no handshake until the table lets it start
    bool waits = true; ///< its first TLS record has not arrived completely
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
  std::map<number, caller> callers_; ///< the same connections as in table_
  number next_ = 0;
  std::optional<clock::time_point> paused_until_; ///< no accept() until then: descriptors ran out
  std::vector<met_peer> proven_;
  std::size_t refused_ = 0;
  std::string last_refused_;
};

} // namespace farandole
