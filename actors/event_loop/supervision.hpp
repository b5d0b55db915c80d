// Supervision of actors, as in Erlang/OTP. A supervisor starts its children in order. When a child ends, it restarts
// that child or all children, depending on its strategy. After too many restarts within a period it gives up and ends
// with the reason, so that its own parent decides. The decisions are in a pure class, supervision_rules; the actor
// below only carries them out.
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
  one_for_one, ///< restart the child that ended
  all_for_one, ///< stop the others, last started first, then start all in order
};

/// The supervisor gives up after more than `limit` restarts within `period`.
struct restart_intensity {
  std::size_t limit = 3;
  std::chrono::nanoseconds period = std::chrono::seconds{10};
};

/// Decides which children to stop and to start. Children are identified by their position. Each call returns the next
/// step, whose parts are to be carried out in the order of its fields.
class supervision_rules {
public:
  struct step {
    std::vector<std::size_t> stop = {};  ///< tell these children to end; report each end by ended()
    std::vector<std::size_t> start = {}; ///< start these children, in order
    bool done = false;                   ///< no child runs any more: end the supervisor
    std::string give_up = {};            ///< if not empty: why the supervisor gives up
  };

  supervision_rules(std::vector<std::string> names, restart_strategy strategy, restart_intensity intensity);

  /// Starts all children.
  step begin();
  /// Reports that a child ended, by itself or because it was told to. `reason` is for messages.
  step ended(std::size_t child, const std::string& reason, instant current_time);
  /// Stops all children, last started first, one at a time.
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

/// Describes a child. The supervisor calls `start` in its own context for each start, and monitors the child. The
/// child must answer its pending requests and end when it receives an exit message.
struct child_spec {
  std::string name;
  std::function<caf::actor(caf::event_based_actor* supervisor)> start;
};

struct supervisor_spec {
  std::string name;
  restart_strategy strategy = restart_strategy::one_for_one;
  restart_intensity intensity = {};
  std::vector<child_spec> children = {};
  /// The supervisor kills a child that has not ended this long after it was told to end.
  std::chrono::nanoseconds stop_timeout = std::chrono::seconds{5};
  /// May be empty. Called in the supervisor's context after each start.
  std::function<void(const std::string& child, const caf::actor& handle)> started = {};
};

/// Asks for the current actor of a child by its name. Answered with the handle, or with an error if it does not run.
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
    std::uint64_t start = 0; ///< number of this start: an old stop timeout must not kill a later child
  };
  void follow(const supervision_rules::step& step);

  caf::event_based_actor* self_;
  supervisor_spec spec_;
  std::optional<supervision_rules> rules_;
  std::vector<running_child> children_;
  std::uint64_t starts_ = 0;
  caf::error exit_;
};

/// Spawn it with `self->spawn(supervisor, spec)`. On an exit message the supervisor stops its children in reverse
/// order, waits for each, and then ends with the reason of that message.
caf::behavior supervisor(caf::stateful_actor<supervisor_state>* self, const supervisor_spec& spec);

} // namespace farandole
