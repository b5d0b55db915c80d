// The listening half of a link in the simulated world (actors/event_loop/listener.cpp). A connection waits
// for its hello and for its turn in a handshake, as the product's handshake_table decides, and may be
// evicted.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "collectives/transport/connections/handshake_table.hpp"

namespace farandole::testing {

/// The end of a handshake for the calling process.
enum class handshake_verdict : std::uint8_t {
  accepted,
  not_tls,      ///< the other end speaks something else
  wrong_secret, ///< the other end does not have the job's secret
  silence,      ///< the other end sends nothing
  hangs_up,     ///< the other end closes the connection before the link is open
};

/// A connecting process.
struct caller {
  using duration = std::chrono::nanoseconds;

  std::string source;            ///< its address
  std::optional<duration> hello; ///< time until its first record is complete; none: it is silent
  std::optional<duration> ends;  ///< duration of its part of a handshake; none: it never ends
  std::function<void()> shaken;  ///< called after its handshake has succeeded or failed
  std::function<void()> evicted; ///< called after its eviction
};

class simulated_listener : public std::enable_shared_from_this<simulated_listener> {
public:
  using duration = std::chrono::nanoseconds;
  using time_point = handshake_table::time_point;
  struct surroundings {
    std::function<time_point()> current_time;
    std::function<void(duration wait, std::function<void()> action)> later;
  };

  simulated_listener(const handshake_limits& limits, surroundings world)
      : table_(limits), world_(std::move(world)) {}

  void connect(caller caller_entry);
  void expect(std::set<std::string> sources) { table_.expect(std::move(sources)); }
  /// Whether no connection is in a handshake or waits for one.
  bool idle() const { return callers_.empty(); }
  /// Evicts all connections whose handshake has not ended.
  void close();

private:
  void serve();
  void settle(handshake_table::connection which);
  void evict(handshake_table::connection which);
  void look_again();
  /// Runs `action` after `wait`, if the listener still exists.
  void later(duration wait, std::function<void(simulated_listener&)> action);

  handshake_table table_;
  surroundings world_;
  std::map<handshake_table::connection, caller> callers_; ///< the connections in the table
  handshake_table::connection next_ = 1;
  std::optional<time_point> looks_; ///< time of the next check for overdue connections
};

} // namespace farandole::testing
