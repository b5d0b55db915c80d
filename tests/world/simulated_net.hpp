// The network of a simulated job: links between processes in place of sockets and TLS. What is sent on one
// link arrives in order and is parsed anew from its bytes; different links overtake each other. Links break,
// wait while their way is blocked or the process that is to get it is stopped, and end with the process at
// either end, of which each end hears in its own time. Whoever dials may have to wait for its place among
// strangers, and may meet somebody who is none of the job.
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
  handshake_limits handshakes; ///< of each listener
};

/// Who hears of what passes. Both may cause faults.
struct net_watcher {
  std::function<void(process_id from, process_id to, const envelope& message)> sent;
  /// Before it is handed over, and only if its link still stands afterwards.
  std::function<void(process_id from, process_id to, const envelope& message)> arriving;
  /// A link between the two ended by a fault.
  std::function<void(process_id a, process_id b)> broken;
  std::function<void(std::string text)> problem;
};

/// What strangers do who connect.
enum class stranger_kind : std::uint8_t {
  any,    ///< some are silent, some begin a handshake, some come to its end in vain
  silent, ///< all say nothing
};

class simulated_net {
public:
  using duration = std::chrono::nanoseconds;

  simulated_net(simulation& world, const net_options& options, net_watcher watcher);
  /// Whoever is still linked hears of nothing more.
  ~simulated_net();

  /// What this process makes its links with; it is reached at its own address.
  std::shared_ptr<link_maker> links_of(process_id process);
  static std::string address_of(process_id process);

  // ---- faults ----

  /// Its links end, and nothing that it does later is heard by anybody.
  void end_process(process_id process);
  /// All links between the two break. `late`: how long until the second of them knows.
  void break_links(process_id a, process_id b, duration late);
  /// Likewise, and `first` knows first, for this reason.
  void break_links_of(process_id first, process_id other, duration late, const std::string& reason);
  /// Nothing passes from one to the other, or passes again. Links that wait too long end.
  void block(process_id from, process_id to, bool blocked);
  /// Nothing reaches it, or reaches it again, whoever sends it …
  void deafen(process_id process, bool blocked) { set(deaf_, process, blocked); }
  /// … and nothing that it sends reaches anybody.
  void mute(process_id process, bool blocked) { set(mute_, process, blocked); }
  /// From now on every message takes up to so much longer.
  void slow_down(duration extra) { extra_ = extra; }
  /// … and those of this process too.
  void slow_down(process_id process, duration extra) { slow_[process] = extra; }

  /// A process that was stopped goes on: what has come meanwhile is handed over.
  void proceed(process_id process);

  // ---- handshakes ----

  /// From now on whoever dials this process, or is dialled by it, ends up so.
  void disturb(process_id process, handshake_verdict verdict);
  /// Somebody who is none of the job listens there ("ip:port") where nobody else does.
  void impersonate(const std::string& location, handshake_verdict verdict);
  /// This many strangers connect to each listener of the process, and again when they have to go, until then.
  void crowd(process_id process, std::size_t strangers, stranger_kind kind,
             caf::actor_clock::time_point deadline, std::uint64_t pick);
  /// It was told that the other end has not its secret, before any link of it had opened.
  bool mistaken_at_first(process_id process) const { return mistaken_at_first_.contains(process); }

  bool ended(process_id process) const { return ended_.contains(process); }
  /// Messages that have arrived.
  std::uint64_t arrived() const { return arrived_; }

  struct end;  ///< one end of a link
  struct wire; ///< both
  class line;  ///< what goes from one end to the other

private:
  struct listener {
    process_id process = 0;
    caf::actor owner;
    std::shared_ptr<simulated_listener> handshakes;
  };
  /// What dial() was asked for, and how long it has tried.
  struct call {
    process_id from = 0;
    std::string location;
    caf::actor owner;
    link_id id = 0;
    duration waited{0};        ///< for a connection
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
  const listener* whoever_listens(const std::string& location);
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
  std::map<process_id, std::vector<caf::actor>> for_stopped_; ///< lines, once for each message
  std::map<process_id, handshake_verdict> disturbed_;
  std::map<std::string, handshake_verdict> impostors_;
  std::set<process_id> linked_; ///< a link of it has opened
  std::set<process_id> mistaken_at_first_;
  /// By "ip:port"; whoever calls reaches any of them.
  std::map<std::string, std::vector<listener>> listeners_;
  std::uint16_t next_port_ = 1000;
  link_id next_accepted_ = link_id{1} << 63;
  std::vector<std::weak_ptr<wire>> wires_;
  std::uint64_t arrived_ = 0;
};

} // namespace farandole::testing
