// Anybody can connect to a listener, and holds a descriptor there before proving anything. This table decides
// which of the accepted connections may begin a handshake, in which order, and which must go. Every listener
// of a job has one: those of links, of data connections and of the shared segment.
//
//   waiting (its first TLS record, the hello, has not come whole) ─▶ ready ─▶ shaking ─▶ removed
//
// A waiting connection costs a descriptor and an entry here, no session and no actor, so there may be many;
// each has a second. When they are too many, the oldest that is still silent goes. No source address has more
// than its share of them. Sources that are expected (hosts of the job's members) are served before others and
// evicted after them, so strangers cannot keep members out by their number.
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

  std::size_t connections = 256;                 ///< waiting or ready, at once
  std::size_t share = 128;                       ///< waiting, of one source address
  std::size_t shaking = 64;                      ///< in a handshake, at once
  duration hello = std::chrono::seconds{1};      ///< from being accepted to a whole hello
  duration handshake = std::chrono::seconds{10}; ///< from there to the proof of the secret
  duration contended = std::chrono::seconds{1};  ///< the same, while others wait for a place

  /// As these, with an eighth of the descriptors that the process may open at the most for what waits.
  handshake_limits within(std::size_t descriptors) const;
};

class handshake_table {
public:
  using time_point = std::chrono::steady_clock::time_point;
  using connection = std::uint64_t;

  explicit handshake_table(const handshake_limits& limits = {}) : limits_(limits) {}

  enum class reason : std::uint8_t {
    no_hello,     ///< it had its second
    share,        ///< its source address has more waiting connections than its share
    full,         ///< the table has no room, and it was the one to spare
    no_proof,     ///< the handshake takes too long
    out_of_place, ///< likewise, while others wait for its place
  };
  struct eviction {
    connection which = 0;
    reason cause = reason::no_hello;

    friend bool operator==(const eviction&, const eviction&) = default;
  };

  /// It was accepted. Returns who makes room for it, which is already removed here.
  std::optional<eviction> accept(connection which, const std::string& source, time_point current_time);
  /// Its hello has come whole.
  void ready(connection which);
  /// The next one to begin its handshake, if there is one and a place for it.
  std::optional<connection> begin_next(time_point current_time);
  /// It has opened or ended.
  void remove(connection which) { all_.erase(which); }
  /// Those whose time has passed; they are removed here.
  std::vector<eviction> overdue(time_point current_time);
  /// When overdue() should be asked next.
  std::optional<time_point> next_due() const;
  /// From now on these sources, and no others, are served before the rest.
  void expect(std::set<std::string> sources) { expected_ = std::move(sources); }

  std::size_t size() const { return all_.size(); }

private:
  enum class stage : std::uint8_t { waiting, ready, shaking };
  struct entry {
    stage at = stage::waiting;
    std::string source;
    time_point since{}; ///< accepted, or began its handshake
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
