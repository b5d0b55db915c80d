// Starts and ends this member's process sets as the global set's schedule says. The global set itself belongs to the
// member. A set starts as one tree (set_tree.hpp), and framework threads find it once its paths are connected here.
// It ends in order:
//
//   told to end (global schedule) ─┐
//                                  ├─▶ pending operations fail ─▶ lane drained ─▶ tree gone
//   its own last schedule ─────────┘
//
// So every member still runs the bundles that the leader had scheduled before.
//
// If an actor or a path of a set fails, that set alone restarts, on all its members. The member that sees the
// failure reports it to the leader. The leader's global schedule tells all members at which point of its order the
// set restarts:
//
//   an actor died, or a path broke
//     ─▶ told to restart (global schedule)
//     ─▶ pending operations fail, the lane gives up, the tree ends
//     ─▶ a new tree with the next number, in the set's next epoch (actors/submission/set_epochs.hpp)
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/interfaces/process_sets.hpp"
#include "actors/process_set/set_tree.hpp"

namespace farandole {

struct process_set_manager_state {
  static inline const char* name = "process_set_manager";

  explicit process_set_manager_state(process_set_manager_actor::pointer owner) : self(owner) {}
  process_set_manager_state(const process_set_manager_state&) = delete;
  process_set_manager_state& operator=(const process_set_manager_state&) = delete;
  ~process_set_manager_state();
  /// `pattern`: the part of the setup that all sets have in common.
  void begin(set_setup pattern);

  void change(const sets_changed& message);
  void restart(const sets_restarted& event);
  void broke(const set_broken& broken_set);
  void retry();
  void notified(const set_progressed& progress);
  void leave(const error& reason);
  void end(const error& reason);
  void ask_about(const processes_silent& report);
  void down(const caf::down_msg& down_message);
  void take_down(const caf::error& reason);

private:
  struct running_set {
    std::shared_ptr<shared_set_state> set_state;
    std::shared_ptr<set_actors> actors;
    caf::actor tree;
    error reason; ///< set once it was told to end: the error for its pending operations
    bool last_schedule_received = false; ///< the leader's last schedule for it has come
    bool again = false;                  ///< it has failed before
    bool ready = false;                  ///< its paths are connected, or there are none here
    bool notified = false;               ///< its actors have been told to end
    bool stopped = false;                ///< its tree has died
    bool failed = false;                 ///< the leader has been told that a part of it failed here
  };
  /// A set that failed, while its submission queue still has to fail the pending operations.
  struct abandoned_set {
    std::shared_ptr<shared_set_state> set_state;
    caf::actor_addr tree;
    bool stopped = false; ///< its tree has died
    error reason;
  };

  void start(const set_event& event, set_epoch epoch, bool again);
  void report_fault(running_set& set, const std::string& reason);
  void restart(const set_restart& set_to_restart);
  void abandon(std::uint32_t number, const error& reason);
  void give_up(std::uint32_t number, const error& reason);
  void send_last_schedule(std::uint32_t number);
  void fail_queues();
  static error shut_down();
  void leave_if_done();
  void stop(running_set& set, const error& reason);
  void fail_if_over(std::uint32_t number);
  void gone(std::uint32_t number);
  void record(event_kind kind, const shared_set_state& set) const;
  void log_event(const running_set& set, const std::string& event) const;
  void settle_if_done();
  void settle(const error& reason);

  process_set_manager_actor::pointer self;
  set_setup pattern_;
  std::set<std::uint32_t> begun_;                ///< numbers of all sets that ever started
  std::map<std::uint32_t, running_set> running_; ///< by number: the sets with actors here
  std::vector<abandoned_set> abandoned_;
  operation_state_ptr asked_;          ///< requested the change in progress; there is at most one
  std::set<std::uint32_t> awaited_;    ///< numbers of the sets that the change starts or ends here
  std::vector<std::uint32_t> started_; ///< ids of the sets that the change starts
  bool retrying_ = false;
  bool leaving_ = false;
  bool left_ = false;
  caf::error taken_down_; ///< exit reason, while submission queues still have to fail pending operations
  error end_reason_;      ///< why the generation ended
};

process_set_manager_actor::behavior_type
process_set_manager(process_set_manager_actor::stateful_pointer<process_set_manager_state> self,
                    set_setup pattern);

} // namespace farandole
