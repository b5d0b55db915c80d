// Any process can connect to a listener, and its connection holds a descriptor there before the process has
// proved anything. This table decides which accepted connections may begin a handshake, in which order, and
// which must be closed. Every listener of a job has a table: those of links, of data connections and of the
// shared segment.
//
// The stages of a connection:
//
//   waiting ─▶ ready ─▶ shaking ─▶ removed
//
//   waiting: its first TLS record, the hello, is not complete
//   ready:   its hello is complete
//   shaking: its handshake is in progress
//
// A waiting connection costs a descriptor and an entry here, but no session and no actor, so there may be
// many. Each is closed after one second without a hello. If there are too many, the oldest silent connection
// is closed. No source address has more than its share of them. Expected sources (the hosts of the job's
// members) are served before others and evicted after them, so strangers cannot keep members out by opening
// many connections.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace farandole {

struct handshake_limits {
  using duration = std::chrono::nanoseconds;

  std::size_t connections = 256;                 ///< greatest number waiting or ready
  std::size_t share = 128;                       ///< greatest number waiting from one source address
  std::size_t shaking = 64;                      ///< greatest number in a handshake
  duration hello = std::chrono::seconds{1};      ///< from accept() to a complete hello
  duration handshake = std::chrono::seconds{10}; ///< from its start to the proof of the secret
  duration contended = std::chrono::seconds{1};  ///< the same, while ready connections wait for a place

  /// The same limits, with `connections` reduced to an eighth of the descriptors that the process may open,
  /// though not below 16, and `share` to half of the connections.
  handshake_limits within(std::size_t descriptors) const;
};

class handshake_table {
public:
  using time_point = std::chrono::steady_clock::time_point;
  using connection = std::uint64_t;

  explicit handshake_table(const handshake_limits& limits = {}) : limits_(limits) {}

  enum class reason : std::uint8_t {
    no_client_hello,    ///< it sent no complete hello in time
    share,              ///< its source address has more waiting connections than its share
    full,               ///< the table is full, and this connection was the most dispensable
    no_proof,           ///< the handshake took too long
    slow_and_contended, ///< the handshake took too long while others waited for its place
  };
  struct eviction {
    connection which = 0;
    reason cause = reason::no_client_hello;

    friend bool operator==(const eviction&, const eviction&) = default;
  };

  /// Adds an accepted connection. Returns the connection that must be closed to make room for it, if any; it
  /// is already removed here.
  std::optional<eviction> accept(connection which, const std::string& source, time_point current_time);
  /// The hello of the connection is complete.
  void ready(connection which);
  /// Selects the next connection to begin its handshake. Empty if none is ready or `shaking` is exhausted.
  std::optional<connection> begin_next(time_point current_time);
  /// The handshake has succeeded, or the connection has ended.
  void remove(connection which) { all_.erase(which); }
  /// The connections whose deadline has passed; they are removed here.
  std::vector<eviction> overdue(time_point current_time);
  /// When overdue() should be called next.
  std::optional<time_point> next_due() const;
  /// Replaces the set of expected sources, which are served before all others.
  void expect(std::set<std::string> sources) { expected_ = std::move(sources); }

  std::size_t size() const { return all_.size(); }

private:
  enum class stage : std::uint8_t { waiting, ready, shaking };
  struct entry {
    stage at = stage::waiting;
    std::string source;
    time_point since{}; ///< when it was accepted, or began its handshake
  };
  using entries = std::map<connection, entry>; ///< by number, hence by age

  bool is_expected(const entry& entry) const { return expected_.contains(entry.source); }
  std::size_t count(stage at) const;
  std::size_t count(stage at, const std::string& source) const;
  std::optional<eviction> evict(entries::const_iterator position, reason reason);
  entries::const_iterator oldest_waiting_of(const std::string& source) const;
  entries::const_iterator most_dispensable() const;
  bool contended() const;
  std::optional<std::pair<time_point, reason>> deadline_of(const entry& entry, bool contended) const;

  handshake_limits limits_;
  entries all_;
  std::set<std::string> expected_;
};

/// "it did not send a TLS hello within 1000 ms", for the log.
std::string text_of(handshake_table::reason reason, const handshake_limits& limits);

} // namespace farandole
