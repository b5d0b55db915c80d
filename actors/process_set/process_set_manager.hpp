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
#include "actors/process_set/set_tree.hpp"

namespace farandole {

struct process_set_manager_state {
  static inline const char* name = "set_keeper";

  explicit process_set_manager_state(process_set_manager_actor::pointer owner) : self(owner) {}
  /// `pattern`: what all sets have in common.
  void begin(set_setup pattern);

  void change(const sets_changed& message);
  void restart(const sets_restarted& event);
  void broke(const set_broken& broken_set);
  void retry();
  void told(const set_told& told_set);
  void leave(const error& reason);
  void end(const error& reason);
  void ask_about(const processes_silent& report);
  void down(const caf::down_msg& down_message);
  void take_down(const caf::error& reason);

private:
  struct running_set {
    std::shared_ptr<shared_set_state> place;
    std::shared_ptr<set_actors> actors;
    caf::actor tree;
    error reason;            ///< told to end: what becomes of what is pending
    bool last_heard = false; ///< the leader's last schedule for it
    bool again = false;      ///< it has failed before
    bool ready = false;      ///< its paths are connected, or there are none here
    bool told = false;       ///< its actors, to end
    bool stopped = false;    ///< its tree has died
    bool failed = false;     ///< the leader has been told that a part of it failed here
  };
  /// Of a set that failed: the submission queue still has to fail what is pending.
  struct remains {
    std::shared_ptr<shared_set_state> place;
    caf::actor_addr tree;
    bool stopped = false; ///< the tree
    error reason;
  };

  void start(const set_event& event, set_epoch epoch, bool again);
  void report_fault(running_set& set, const std::string& reason);
  void restart(const set_restart& set_to_restart);
  void abandon(std::uint32_t number, const error& reason);
  void say_last(std::uint32_t number);
  void fail_queues();
  static error shut_down();
  void leave_if_done();
  void stop(running_set& set, const error& reason);
  void fail_if_over(std::uint32_t number);
  void gone(std::uint32_t number);
  void settle_if_done();
  void settle(const error& reason);

  process_set_manager_actor::pointer self;
  set_setup pattern_;
  std::set<std::uint32_t> begun_;                ///< numbers of all sets that ever started
  std::map<std::uint32_t, running_set> running_; ///< by number: those with actors here
  std::vector<remains> abandoned_;
  operation_state_ptr asked_;          ///< the change that is coming about; at most one
  std::set<std::uint32_t> awaited_;    ///< numbers of sets that it starts or ends here
  std::vector<std::uint32_t> started_; ///< ids of those that it starts
  bool retrying_ = false;
  bool leaving_ = false;
  bool left_ = false;
  caf::error taken_down_; ///< why, while submission queues still have to fail what is pending
  error over_;            ///< why the generation ended
};

process_set_manager_actor::behavior_type
process_set_manager(process_set_manager_actor::stateful_pointer<process_set_manager_state> self,
                    set_setup pattern);

} // namespace farandole
