// The listening half of a link in the simulated world (actors/event_loop/listener.cpp): who connects waits for its
// hello and for its place in a handshake, as the product's handshake_table decides, and may be evicted.
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

/// How a handshake ends for whoever dials.
enum class handshake_verdict : std::uint8_t {
  accepted,
  not_tls,      ///< the other end speaks something else
  wrong_secret, ///< it has not the job's secret
  silence,      ///< it says nothing
  hangs_up,     ///< it closes the connection before the link is open
};

/// Who connects.
struct caller {
  using duration = std::chrono::nanoseconds;

  std::string source;            ///< its address
  std::optional<duration> hello; ///< until its first record is whole; none: it is silent
  std::optional<duration> ends;  ///< how long its part of a handshake takes; none: it never ends
  std::function<void()> shaken;  ///< its handshake has come to its end, well or not
  std::function<void()> evicted; ///< it has to go
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
  /// Nobody is in a handshake, or waits for one.
  bool idle() const { return callers_.empty(); }
  /// All who have not ended their handshake have to go.
  void close();

private:
  void serve();
  void settle(handshake_table::connection which);
  void evict(handshake_table::connection which);
  void look_again();
  /// Does it later, if there still is a listener.
  void later(duration wait, std::function<void(simulated_listener&)> action);

  handshake_table table_;
  surroundings world_;
  std::map<handshake_table::connection, caller> callers_; ///< those in the table
  handshake_table::connection next_ = 1;
  std::optional<time_point> looks_; ///< when it asks next who is overdue
};

} // namespace farandole::testing
