// The network of a simulated job: links between processes in place of sockets and TLS. What is sent on one
// link arrives in order and is parsed anew from its bytes; different links overtake each other. Links break,
// wait while their way is blocked, and end with the process at either end, of which each end hears in its own
// time.
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

#include "actors/kit/link.hpp"
#include "tests/world/dice.hpp"

namespace farandole::testing {

/// A simulated process; 0 is the launcher's, below are rendezvous apart from it, above are workers.
using process_id = std::int32_t;
inline constexpr process_id launcher_process = 0;

struct net_options {
  std::uint64_t seed = 1;
  std::uint64_t latency_us = 50;
  std::uint64_t jitter_us = 200;
  std::uint64_t delayed = 50; ///< one message in so many …
  std::uint64_t delay_us = 5000;
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

class simulated_net {
public:
  using duration = std::chrono::nanoseconds;

  simulated_net(caf::actor_system& system, const net_options& options, net_watcher watcher);
  /// Whoever is still linked hears of nothing more.
  ~simulated_net();

  /// What this process makes its links with; it is reached at its own address.
  std::shared_ptr<link_maker> links_of(process_id who);
  static std::string address_of(process_id who);

  // ---- faults ----

  /// Its links end, and nothing that it does later is heard by anybody.
  void end_process(process_id who);
  /// All links between the two break. `late`: how long until the second of them knows.
  void break_links(process_id a, process_id b, duration late);
  /// Nothing passes from one to the other, or passes again. Links that wait too long end.
  void block(process_id from, process_id to, bool blocked);
  /// Nothing reaches it, or reaches it again, whoever sends it …
  void deafen(process_id who, bool blocked) { set(deaf_, who, blocked); }
  /// … and nothing that it sends reaches anybody.
  void mute(process_id who, bool blocked) { set(mute_, who, blocked); }
  /// From now on every message takes up to so much longer.
  void slow_down(duration extra) { extra_ = extra; }
  /// … and those of this process too.
  void slow_down(process_id who, duration extra) { slow_[who] = extra; }

  bool ended(process_id who) const { return ended_.contains(who); }
  /// Messages that have arrived.
  std::uint64_t arrived() const { return arrived_; }

  struct end;  ///< one end of a link
  struct wire; ///< both
  class line;  ///< what goes from one end to the other

private:
  struct listener {
    process_id who = 0;
    caf::actor owner;
  };
  class maker;

  void connect(process_id from, const std::string& where, caf::actor owner, link_id id, duration waited);
  void open(process_id from, const listener& to, caf::actor owner, link_id id);
  void break_wire(wire& which, duration late, int first);
  bool is_blocked(process_id from, process_id to) const {
    return blocked_.contains({from, to}) || deaf_.contains(to) || mute_.contains(from);
  }
  const listener* whoever_listens(const std::string& where);
  static void set(std::set<process_id>& which, process_id who, bool blocked) {
    if (blocked)
      which.insert(who);
    else
      which.erase(who);
  }
  duration takes(process_id from, process_id to);
  void later(duration when, std::function<void()> what);

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
  /// By "ip:port"; whoever calls reaches any of them.
  std::map<std::string, std::vector<listener>> listeners_;
  std::uint16_t next_port_ = 1000;
  link_id next_accepted_ = link_id{1} << 63;
  std::vector<std::weak_ptr<wire>> wires_;
  std::uint64_t arrived_ = 0;
};

} // namespace farandole::testing
