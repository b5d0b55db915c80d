// The network of a simulated job, in place of links and post. Each member has a link to the leader and back:
// messages on one link keep their order and take their time; messages on different links overtake each other.
// What arrives is parsed anew from its bytes, as it would be in another process.
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "actors/interfaces.hpp"
#include "tests/world/chronicle.hpp"
#include "tests/world/dice.hpp"
#include "tests/world/script.hpp"

namespace farandole::testing {

/// What went over the network.
struct traffic {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t ids = 0;         ///< requests by id
  std::uint64_t full = 0;        ///< requests in full
  std::uint64_t full_at_end = 0; ///< of them, since `mark()`
};

class network {
public:
  network(const job_options& options, chronicle& log);

  /// The end of every link.
  void connect(envelope_actor negotiator, std::vector<envelope_actor> workers);
  void disconnect();
  /// Counts what is asked in full from now on.
  void mark() { counted_.full_at_end = 0; }
  const traffic& counted() const { return counted_; }

  /// The post of all members: takes `outbound`.
  caf::behavior behavior(caf::event_based_actor* self);

private:
  struct line {
    std::deque<envelope> in_flight;
    caf::actor_clock::time_point last{};
  };
  void accept(caf::event_based_actor* self, const outbound& message);
  void put(caf::event_based_actor* self, std::size_t link, const envelope& message);
  void deliver(caf::event_based_actor* self, std::size_t link);
  void count(const envelope& message);

  job_options options_;
  chronicle& log_;
  dice draw_;
  std::vector<line> lines_; ///< to the leader by rank, then from it by rank
  envelope_actor negotiator_;
  std::vector<envelope_actor> workers_;
  traffic counted_;
};

} // namespace farandole::testing
