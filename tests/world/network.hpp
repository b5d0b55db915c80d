// The network of a simulated job, in place of links and message routers. Each member has a link to the member above it
// in the tree of relays, the leader where there are none, and back: messages on one link keep their order and
// take their time; messages on different links overtake each other. What arrives is parsed anew from its
// bytes, as it would be in another process.
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

/// What went over the network.
struct traffic {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t ids = 0;               ///< requests by id, as they left the members
  std::uint64_t full = 0;              ///< requests in full, likewise
  std::uint64_t buckets = 0;           ///< whole buckets, likewise
  std::uint64_t planned = 0;           ///< buckets, as the leader told of them
  std::uint64_t dissolved = 0;         ///< likewise
  message_count to_leader;             ///< from other processes
  message_count from_leader;           ///< to other processes
  std::chrono::nanoseconds parsing{0}; ///< of this machine, for what came to the leader
};

/// Who takes what comes in, by rank.
struct line_ends {
  envelope_actor negotiator;
  std::vector<envelope_actor> workers;
  std::vector<envelope_actor> relays; ///< null where nobody is below
};

class network {
public:
  network(const job_options& options, const relay_tree& tree, chronicle& log);

  /// The end of every link.
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
  std::vector<line> lines_; ///< up from each rank, then down to each rank; rank 0's are within its process
  line_ends ends_;
  traffic counted_;
};

} // namespace farandole::testing
