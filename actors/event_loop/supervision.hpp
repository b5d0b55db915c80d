// Who restarts whom. A supervisor starts its children in order and, when one dies, restarts that one or all
// of them, as its strategy says; too many deaths in too short a time and it gives up and dies itself, with
// the reason, so that its own parent decides. The rules are a pure class; the actor below it only does what
// they say.
#pragma once

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/event_loop/clock.hpp"

namespace farandole {

enum class restart_strategy : std::uint8_t {
  one_for_one, ///< restart the child that died
  all_for_one, ///< stop the others, last started first, then start all in order
};

/// More than `most` restarts within `period`: give up.
struct restart_intensity {
  std::size_t limit = 3;
  std::chrono::nanoseconds period = std::chrono::seconds{10};
};

/// Decides; knows children by their position. Each call returns what to do next, in this order.
class supervision_rules {
public:
  struct step {
    std::vector<std::size_t> stop = {};  ///< tell these to end; each end comes back through ended()
    std::vector<std::size_t> start = {}; ///< start these, in order
    bool done = false;                   ///< nothing runs any more: the supervisor ends
    std::string give_up = {};            ///< not empty: why it ends, or is about to
  };

  supervision_rules(std::vector<std::string> names, restart_strategy strategy, restart_intensity intensity);

  /// Start everything.
  step begin();
  /// A child ended, asked or not. `reason` is for people.
  step ended(std::size_t child, const std::string& reason, instant current_time);
  /// End everything, last started first, one at a time.
  step stop();

  bool runs(std::size_t child) const { return running_[child]; }
  bool stopping() const { return phase_ == phase::stopping; }

private:
  enum class phase : std::uint8_t { running, restarting, stopping };

  bool too_many(instant current_time);
  step stop_next();
  step start_all();

  std::vector<std::string> names_;
  restart_strategy strategy_;
  restart_intensity intensity_;
  phase phase_ = phase::running;
  std::vector<bool> running_;
  std::deque<instant> restarts_;
  std::string give_up_;
};

/// How to make a child. Called for each start, in the supervisor's context; the child is monitored by the
/// supervisor and must end when it gets an exit message (after answering what it owes).
struct child_spec {
  std::string name;
  std::function<caf::actor(caf::event_based_actor* supervisor)> start;
};

struct supervisor_spec {
  std::string name;
  restart_strategy strategy = restart_strategy::one_for_one;
  restart_intensity intensity = {};
  std::vector<child_spec> children = {};
  /// A child that has not ended this long after it was told to is killed.
  std::chrono::nanoseconds stop_timeout = std::chrono::seconds{5};
  /// Called, if set, in the supervisor's context after each start.
  std::function<void(const std::string& child, const caf::actor& handle)> started = {};
};

/// "Which actor is this child now?" Answered with the handle, or with an error when it does not run.
using child_atom = caf::atom_constant<caf::atom("child")>;

class supervisor_state {
public:
  static inline const char* name = "supervisor";

  explicit supervisor_state(caf::event_based_actor* self) : self_(self) {}
  void begin(supervisor_spec wanted);
  void stop(const caf::error& reason);
  void child_down(const caf::down_msg& message);
  caf::result<caf::actor> child(const std::string& wanted) const;
  void overdue(std::size_t index, std::uint64_t start);

private:
  struct running_child {
    caf::actor handle;
    std::uint64_t start = 0; ///< numbers each start, so that a late deadline hits nobody else
  };
  void follow(const supervision_rules::step& step);

  caf::event_based_actor* self_;
  supervisor_spec spec_;
  std::optional<supervision_rules> rules_;
  std::vector<running_child> children_;
  std::uint64_t starts_ = 0;
  caf::error exit_;
};

/// Spawn with `self->spawn(supervisor, spec)`. An exit message stops the children in reverse order, waits for
/// each, and only then ends the supervisor, with that reason.
caf::behavior supervisor(caf::stateful_actor<supervisor_state>* self, const supervisor_spec& spec);

} // namespace farandole
