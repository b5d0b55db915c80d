// One member of a simulated job with process sets: the real actors below its member, lanes that only take
// virtual time, and a trainer that plays the program of the job.
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/process_set/shared_state.hpp"
#include "tests/world/chronicle.hpp"
#include "tests/world/dice.hpp"
#include "tests/world/set_play.hpp"

namespace farandole::testing {

/// The objects that all members share.
struct set_stage {
  const set_play& play;
  std::vector<member> members;
  std::shared_ptr<const relay_tree> tree;
  std::map<std::uint32_t, chronicle> logs{}; ///< by the number of the set in envelopes
  /// Ids by number in the play, which must be the same on all members.
  std::map<std::size_t, std::uint32_t> ids{};
  std::map<std::size_t, std::uint32_t> numbers{}; ///< numbers in envelopes, by number in the play
  std::vector<std::string> problems{};
  std::int32_t finished = 0; ///< number of members that have completed the program
  std::int32_t gone = 0;     ///< number of members that have ended all their sets after the last schedule

  chronicle& log(std::uint32_t number, std::size_t members_of_set);
  void problem(std::string text);
};

class set_player {
public:
  set_player(caf::actor_system& system, set_stage& set_stage, std::int32_t rank);
  /// Starts the actors of the global set. `link` creates and announces the link to the parent, once the
  /// message router knows the tree.
  void start(std::function<void()> link);
  /// Asks the leader to end the job.
  void leave();
  void stop();
  const caf::actor& router() const { return router_; }

private:
  struct submitted {
    std::size_t step;
    std::size_t set;
    std::int32_t tensor;
  };

  caf::behavior member(caf::event_based_actor* self);
  caf::behavior trainer(caf::event_based_actor* self);
  void begin_action();
  void ask(const set_change& change);
  void answered(const operation_state& operation);
  void begin_play();
  void submit_some(caf::event_based_actor* self);
  void submit(const submitted& tensor);
  void settled(const submitted& tensor, const operation_state& operation);
  void next_action();
  std::shared_ptr<shared_set_state> state_of(std::size_t set) const;
  std::string location() const;

  caf::actor_system& system_;
  set_stage& stage_;
  std::int32_t rank_;
  dice draw_;
  std::shared_ptr<shared_member_state> shared_ = std::make_shared<shared_member_state>();
  caf::actor member_;
  caf::actor trainer_;
  caf::actor router_;
  caf::actor sets_;
  caf::actor worker_;
  caf::actor tree_;

  std::size_t step_ = 0;
  std::vector<submitted> order_; ///< still to be submitted
  std::size_t in_flight_ = 0;
  std::size_t doomed_in_flight_ = 0;
};

} // namespace farandole::testing
