// The data paths of a simulated job. A bundle moves once every member of its set has started it; the results
// are computed from the inputs of all members. If a member has gone, the bundles of the others break sooner
// or later, or succeed just before they would break. Members of a set on one host share a real fast path for
// small tensors if the settings enable it.
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

#include "actors/process_set/lane.hpp"
#include "tests/world/dice.hpp"
#include "tests/world/simulated_net.hpp"

namespace farandole {
class heartbeat_words;
struct set_setup;
} // namespace farandole

namespace farandole::testing {

/// A process set of one generation, by its number in envelopes.
struct set_key {
  std::uint64_t generation = 0;
  /// A hash of the members' addresses, since two rendezvous may create two sets of one generation.
  std::uint64_t members = 0;
  std::uint32_t number = 0;

  friend auto operator<=>(const set_key&, const set_key&) = default;
};

set_key global_set_of(std::uint64_t generation, const std::vector<member>& members);

/// Sent to a lane: its bundle has moved, or will never move.
struct bundle_moved {
  std::uint64_t sequence = 0;
  bool well = false;
};

/// Sent to a lane: its bundle should have moved by now.
struct bundle_overdue {
  std::uint64_t sequence = 0;
};

struct plane_watcher {
  /// A member's lane begins a bundle.
  std::function<void(const set_key& set, std::int32_t place, std::int32_t members, const lane_task& task)>
      ran;
  std::function<void(std::string text)> problem;
};

class data_plane {
public:
  /// `heartbeats`: lanes wait for the operation timeout at most, and members on one host share words for
  /// their signs of life.
  data_plane(std::uint64_t seed, bool heartbeats, plane_watcher watcher);

  /// Creates the path connectors of the sets of this process.
  void simulate(set_setup& pattern, process_id process);
  /// The fast path of a member of this set; null if it has none.
  std::shared_ptr<shm_fast_path> fast_path_of(const set_key& set, const set_setup& setup, std::int32_t place);
  /// The heartbeat words of a member of this set, beside its fast path; null if it has none.
  std::shared_ptr<heartbeat_words> words_of(const set_key& set, const set_setup& setup,
                                            std::int32_t place) const;
  /// Ends the process.
  void end_process(process_id process);
  /// Makes the lanes of this process `times` times slower.
  void slow_down(process_id process, std::uint64_t times) { slow_[process] = times; }

private:
  class lane_state;
  using numbers = std::vector<std::int64_t>;

  struct bundle {
    farandole::operation operation = operation::allreduce;
    farandole::reduce_op op = reduce_op::sum;
    std::size_t root = 0;
    std::vector<std::vector<numbers>> brought; ///< by place and part
    std::vector<caf::actor> lanes;             ///< by place; null: the member has not arrived
    std::vector<bool> notified;                ///< by place: whether the member knows the end
    std::size_t arrived = 0;
    bool broken = false;
    std::vector<numbers> result; ///< by part, once all members have arrived
  };
  struct path {
    std::set<std::int32_t> gone; ///< places of members that have gone
    std::map<std::uint64_t, bundle> bundles;
  };

  void arrive(const set_key& set, std::int32_t place, std::size_t members, const lane_task& task,
              const caf::actor& lane);
  void leave(const set_key& set, std::int32_t place, bool in_order);
  void combine(bundle& bundle);
  void break_bundle(std::uint64_t sequence, bundle& bundle);
  std::vector<numbers> take(const set_key& set, std::uint64_t sequence, std::int32_t place);
  std::chrono::microseconds takes(process_id process, std::uint64_t most_us);

  bool heartbeats_;
  plane_watcher watcher_;
  dice draw_;
  std::map<process_id, std::uint64_t> slow_;
  std::set<process_id> ended_;
  std::map<set_key, path> paths_;
  std::map<set_key, std::shared_ptr<shm_segment>> segments_;
  std::map<process_id, std::vector<std::pair<set_key, std::int32_t>>> places_;
};

} // namespace farandole::testing

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::testing::bundle_moved)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::testing::bundle_overdue)
