// The network of a simulated job: links between processes, which replace sockets and TLS. The messages on one
// link arrive in order and are parsed from their bytes; messages on different links overtake each other.
// Links break, wait while they are blocked or the receiving process is stopped, and end with the process at
// either end, which each end learns at its own time. A process that dials may have to wait behind
// unauthenticated peers, and may reach a process that is not of the job.
#pragma once

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/event_loop/link.hpp"
#include "elastic/reconnect_backoff.hpp"
#include "tests/world/dice.hpp"
#include "tests/world/simulated_listener.hpp"
#include "tests/world/simulation.hpp"

namespace farandole::testing {

struct net_options {
  std::uint64_t seed = 1;
  std::uint64_t latency_us = 50;
  std::uint64_t jitter_us = 200;
  std::uint64_t delayed = 50; ///< one message in so many …
  std::uint64_t delay_us = 5000;
  handshake_limits handshakes; ///< limits of each listener
};

/// Callbacks for messages and events. The first two may cause faults.
struct net_watcher {
  std::function<void(process_id from, process_id to, const envelope& message)> sent;
  /// Called before a message is delivered; it is delivered only if its link still exists afterwards.
  std::function<void(process_id from, process_id to, const envelope& message)> arriving;
  /// A fault has ended a link between the two.
  std::function<void(process_id a, process_id b)> broken;
  std::function<void(std::string text)> problem;
};

/// The behaviour of unauthenticated peers.
enum class stranger_kind : std::uint8_t {
  any,    ///< some are silent, some begin a handshake, and some fail at its end
  silent, ///< all are silent
};

class simulated_net {
public:
  using duration = std::chrono::nanoseconds;

  simulated_net(simulation& world, const net_options& options, net_watcher watcher);
  /// Processes that are still linked receive no more events.
  ~simulated_net();

  /// The link maker of this process, which has its own address.
  std::shared_ptr<link_maker> links_of(process_id process);
  static std::string address_of(process_id process);

  // ---- faults ----

  /// Ends the links of the process, and drops its later messages.
  void end_process(process_id process);
  /// Breaks all links between the two. `late`: the longest time until the second end learns of it.
  void break_links(process_id a, process_id b, duration late);
  /// Likewise, but `first` learns of it first, with this reason.
  void break_links_of(process_id first, process_id other, duration late, const std::string& reason);
  /// Blocks or unblocks messages from one process to the other. Links that wait too long end.
  void block(process_id from, process_id to, bool blocked);
  /// Blocks or unblocks all messages to the process …
  void deafen(process_id process, bool blocked) { set(deaf_, process, blocked); }
  /// … and all messages from the process.
  void mute(process_id process, bool blocked) { set(mute_, process, blocked); }
  /// From now on every message takes up to `extra` longer.
  void slow_down(duration extra) { extra_ = extra; }
  /// Likewise for the messages from and to one process.
  void slow_down(process_id process, duration extra) { slow_[process] = extra; }

  /// Continues a stopped process, and delivers the messages that have arrived meanwhile.
  void proceed(process_id process);

  // ---- handshakes ----

  /// From now on all handshakes from and to this process end in this way.
  void disturb(process_id process, handshake_verdict verdict);
  /// A process that is not of the job listens at `location` ("ip:port") while no other process does.
  void impersonate(const std::string& location, handshake_verdict verdict);
  /// Until `deadline`, this number of unauthenticated peers connect to each listener of the process, and
  /// again after an eviction.
  void crowd(process_id process, std::size_t strangers, stranger_kind kind,
             caf::actor_clock::time_point deadline, std::uint64_t pick);
  /// Whether the process was told that the other end does not have the secret before any of its links had
  /// opened.
  bool mistaken_at_first(process_id process) const { return mistaken_at_first_.contains(process); }

  bool ended(process_id process) const { return ended_.contains(process); }
  /// Messages that have arrived.
  std::uint64_t arrived() const { return arrived_; }

  struct end;  ///< one end of a link
  struct wire; ///< both ends of a link
  class line;  ///< one direction of a link

private:
  struct listener {
    process_id process = 0;
    caf::actor owner;
    std::shared_ptr<simulated_listener> handshakes;
  };
  /// The arguments of dial(), and the time of its attempts.
  struct call {
    process_id from = 0;
    std::string location;
    caf::actor owner;
    link_id id = 0;
    duration waited{0};        ///< waiting time for a connection
    reconnect_backoff again{}; ///< after the peer hung up before the link was open
  };
  class maker;

  void connect(call call);
  void conclude(call call, handshake_verdict verdict);
  void shake_hands(call call, const listener& to);
  void dial_again(call call);
  void fail(const call& call, const std::string& reason, bool untrusted = false);
  handshake_verdict verdict_between(process_id from, process_id to) const;
  void send_stranger(const std::string& location, process_id process, stranger_kind kind,
                     caf::actor_clock::time_point deadline, std::uint64_t pick);
  void open(const call& call, const listener& to);
  void break_wire(wire& which, duration late, int first, const std::string& reason);
  bool is_blocked(process_id from, process_id to) const {
    return blocked_.contains({from, to}) || deaf_.contains(to) || mute_.contains(from);
  }
  const listener* listener_at(const std::string& location);
  static void set(std::set<process_id>& which, process_id process, bool blocked) {
    if (blocked)
      which.insert(process);
    else
      which.erase(process);
  }
  duration takes(process_id from, process_id to);
  void later(duration when, std::function<void()> action);

  simulation& world_;
  caf::actor_system& system_;
  net_options options_;
  net_watcher watcher_;
  dice draw_;
  duration extra_{0};
  std::map<process_id, duration> slow_;
  std::set<process_id> ended_;
  std::set<std::pair<process_id, process_id>> blocked_;
  std::set<process_id> deaf_;
  std::set<process_id> mute_;
  std::map<process_id, std::vector<caf::actor>> for_stopped_; ///< lines, one entry for each message
  std::map<process_id, handshake_verdict> disturbed_;
  std::map<std::string, handshake_verdict> impostors_;
  std::set<process_id> linked_; ///< processes with a link that has opened
  std::set<process_id> mistaken_at_first_;
  /// By "ip:port"; a call reaches any of them.
  std::map<std::string, std::vector<listener>> listeners_;
  std::uint16_t next_port_ = 1000;
  link_id next_accepted_ = link_id{1} << 63;
  std::vector<std::weak_ptr<wire>> wires_;
  std::uint64_t arrived_ = 0;
};

} // namespace farandole::testing
