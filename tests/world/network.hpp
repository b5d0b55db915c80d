// The network of a simulated job, which replaces links and message routers. Each member has a link in both
// directions to its parent in the tree of relays, or to the leader without relays. Messages on one link keep
// their order and take some time; messages on different links overtake each other. Each message is parsed
// from its bytes on arrival, as in another process.
#pragma once

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "actors/event_loop/envelope_actor.hpp"
#include "collectives/relay/relay_tree.hpp"
#include "tests/world/chronicle.hpp"
#include "tests/world/dice.hpp"
#include "tests/world/script.hpp"

namespace farandole::testing {

struct message_count {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;

  void add(const envelope& message) {
    ++messages;
    bytes += message.bytes().size();
  }
};

/// The messages over the network.
struct traffic {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t ids = 0;               ///< requests by id, as they left the members
  std::uint64_t full = 0;              ///< requests in full, as they left the members
  std::uint64_t buckets = 0;           ///< requests of whole buckets, as they left the members
  std::uint64_t planned = 0;           ///< buckets that the leader announced
  std::uint64_t dissolved = 0;         ///< buckets that the leader dissolved
  message_count to_leader;             ///< from other processes
  message_count from_leader;           ///< to other processes
  std::chrono::nanoseconds parsing{0}; ///< processor time for messages to the leader
};

/// The receivers of messages, by rank.
struct line_ends {
  envelope_actor negotiator;
  std::vector<envelope_actor> workers;
  std::vector<envelope_actor> relays; ///< null for ranks without children
};

class network {
public:
  network(const job_options& options, const relay_tree& tree, chronicle& log);

  /// Sets the receivers of all links.
  void connect(line_ends ends);
  void disconnect();
  const traffic& counted() const { return counted_; }

  /// The message router of all members: takes envelopes.
  caf::behavior behavior(caf::event_based_actor* self);

private:
  struct line {
    std::deque<envelope> in_flight;
    caf::actor_clock::time_point last{};
  };
  void accept(caf::event_based_actor* self, const envelope& message);
  void put_up(caf::event_based_actor* self, std::int32_t rank, const envelope& message);
  void put_down(caf::event_based_actor* self, std::int32_t rank, const envelope& message);
  void put(caf::event_based_actor* self, std::size_t link, const envelope& message);
  void deliver(caf::event_based_actor* self, std::size_t link);
  void arrive_up(caf::event_based_actor* self, std::int32_t rank, envelope&& message);
  void arrive_down(caf::event_based_actor* self, std::int32_t rank, const envelope& message);
  void hand_down(caf::event_based_actor* self, std::int32_t from, const envelope& message);
  void count(const envelope& message);
  void count_plans(const envelope& message);

  job_options options_;
  const relay_tree& tree_;
  chronicle& log_;
  dice draw_;
  /// The lines up from each rank, then those down to each rank; the links of rank 0 are within its process.
  std::vector<line> lines_;
  line_ends ends_;
  traffic counted_;
};

} // namespace farandole::testing
