// Starts and ends this member's process sets as the global set's schedule says; the global set itself is the
// member's. A set starts as one tree (set_tree.hpp) and is found by framework threads once its paths are
// connected here. It ends in order:
//
//   told to end (global schedule) ─┐
//                                  ├─▶ what is pending fails ─▶ lane drained ─▶ gone
//   its own last schedule ─────────┘
//
// so that what the leader had scheduled before still runs on every member.
//
// A set of which a part fails starts anew on all its members, alone. Whoever sees the failure tells the
// leader, whose global schedule says to all where in its order the set restarts:
//
//   an actor died, a path broke ─▶ told to start anew (global schedule) ─▶ what is pending fails, the lane
//   gives up, the tree goes ─▶ a new tree with the next number, the set's next epoch (door/set_epochs.hpp)
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "actors/interfaces/process_sets.hpp"
#include "actors/set/set_tree.hpp"

namespace farandole {

struct set_keeper_state {
  static inline const char* name = "set_keeper";

  explicit set_keeper_state(sets_actor::pointer owner) : self(owner) {}
  /// `pattern`: what all sets have in common.
  void begin(set_setup pattern);

  void change(const sets_changed& what);
  void restart(const sets_restarted& what);
  void broke(const set_broken& what);
  void retry();
  void told(const set_told& what);
  void leave(const error& why);
  void end(const error& why);
  void ask_about(const processes_silent& what);
  void down(const caf::down_msg& what);
  void take_down(const caf::error& why);

private:
  struct running_set {
    std::shared_ptr<set_standing> place;
    std::shared_ptr<set_actors> actors;
    caf::actor tree;
    error why;               ///< told to end: what becomes of what is pending
    bool last_heard = false; ///< the leader's last schedule for it
    bool again = false;      ///< it has failed before
    bool ready = false;      ///< its paths are connected, or there are none here
    bool told = false;       ///< its actors, to end
    bool stopped = false;    ///< its tree has died
    bool failed = false;     ///< the leader has been told that a part of it failed here
  };
  /// Of a set that failed: the door still has to fail what is pending.
  struct remains {
    std::shared_ptr<set_standing> place;
    caf::actor_addr tree;
    bool stopped = false; ///< the tree
    error why;
  };

  void start(const set_event& what, set_epoch epoch, bool again);
  void report_fault(running_set& one, const std::string& reason);
  void restart(const set_restart& what);
  void abandon(std::uint32_t number, const error& why);
  void say_last(std::uint32_t number);
  void fail_doors();
  static error shut_down();
  void leave_if_done();
  void stop(running_set& one, const error& why);
  void fail_if_over(std::uint32_t number);
  void gone(std::uint32_t number);
  void settle_if_done();
  void settle(const error& how);

  sets_actor::pointer self;
  set_setup pattern_;
  std::set<std::uint32_t> begun_;                ///< numbers of all sets that ever started
  std::map<std::uint32_t, running_set> running_; ///< by number: those with actors here
  std::vector<remains> abandoned_;
  pending_ptr asked_;                  ///< the change that is coming about; at most one
  std::set<std::uint32_t> awaited_;    ///< numbers of sets that it starts or ends here
  std::vector<std::uint32_t> started_; ///< ids of those that it starts
  bool retrying_ = false;
  bool leaving_ = false;
  bool left_ = false;
  caf::error taken_down_; ///< why, while doors still have to fail what is pending
  error over_;            ///< why the generation ended
};

sets_actor::behavior_type set_keeper(sets_actor::stateful_pointer<set_keeper_state> self, set_setup pattern);

} // namespace farandole
