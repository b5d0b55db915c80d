// The set client: the actor of one member in one process set. It sends the operations that framework threads put
// into the submission queue to the leader as requests, keeps each operation until a schedule starts or fails it,
// and hands bundles to the path connector. When the generation ends, it settles every operation that it still
// holds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/event_loop/envelope_actor.hpp"
#include "actors/event_loop/log.hpp"
#include "actors/interfaces/lane.hpp"
#include "actors/interfaces/process_sets.hpp"
#include "actors/interfaces/set_client.hpp"
#include "actors/process_set/announced_operations.hpp"
#include "actors/process_set/fast_path_watch.hpp"
#include "actors/process_set/lane.hpp"
#include "actors/submission/submission_queue.hpp"
#include "collectives/negotiation/inline_reduction.hpp"
#include "collectives/relay/bucket_accumulator.hpp"
#include "collectives/transport/shm/shm_fast_path.hpp"
#include "elastic/stuck_rules.hpp"

namespace farandole {

/// Has more than 20 fields because the set client works with all other parts of a member. Passed once, by value.
struct set_client_setup {
  std::shared_ptr<farandole::submission_queue> queue;
  farandole::address self;         ///< generation, set, own global rank
  std::int32_t leader = 0;         ///< global rank
  std::int32_t rank = 0;           ///< own, within the set
  std::int32_t members = 1;        ///< of the set
  std::vector<std::int32_t> ranks; ///< of a process set: global ranks of its members; none for the global set
  envelope_actor router;
  path_connector_actor connector;
  std::shared_ptr<launch_order> launches =
      nullptr; ///< of the runtime; null: no bundle takes part in the order
  /// Takes over the operations of dropped tasks; null for the global set.
  std::shared_ptr<farandole::lane> lane;
  /// Is told of errors, of an orderly end of the global set, and of members that hold up operations. May be null
  /// in tests.
  set_client_watcher_actor member;
  stuck_rules stuck;
  inline_rules inline_tensors; ///< which tensors travel inside the requests
  /// Global ranks of the processes that every operation of this set needs: the members, and the relays between
  /// them and the leader.
  std::set<std::int32_t> depends_on;
  process_set_manager_actor sets; ///< of the global set: is told of changes of the process sets
  /// Of a process set: called when its last schedule has come; end() follows. Empty for the global set.
  std::function<void()> ended;
  /// Called when an operation on the fast path has failed on this member alone. Empty in most tests.
  std::function<void(error)> broke;
  /// Called after end(), when all operations that the set client held are settled.
  std::function<void()> settled;
  /// Describes a global rank to users: "rank 1 on alpha". Empty in tests.
  std::function<std::string(std::int32_t)> name_of;
  /// Returns the fast path of this generation; null until it is connected, and where there is none.
  std::function<std::shared_ptr<farandole::shm_fast_path>()> fast_path;
  std::size_t fast_path_limit_bytes = 0;  ///< largest tensor that a cell of the fast path holds whole
  std::shared_ptr<result_memory> results; ///< with a fast path: memory for outputs of operations there
  /// With a fast path: continues, on a thread that may block, a collective whose caller may never come back to run
  /// it.
  std::function<void(operation_state_ptr)> move;
  logger* log = nullptr;
  std::shared_ptr<event_recorder> recorder; ///< may be null
};

struct set_client_state {
  static inline const char* name = "set_client";

  explicit set_client_state(set_client_actor::pointer owner) : self(owner) {}
  void begin(set_client_setup setup);

  void drain_queue();
  void follow(const envelope& message);
  void leave(departure manner);
  void end(const error& reason);
  void retry();
  void look();
  void report(const bundle_finished& finished);
  void tick();
  stall_list stalled(std::chrono::nanoseconds limit);
  void judge(const processes_silent& report);

private:
  /// `inline_bytes`: total size of the tensors that `batch` carries inline so far.
  void announce(operation_state_ptr operation, requests& batch, std::size_t& inline_bytes);
  void add_value(const operation_state& operation, requests& batch, std::size_t& inline_bytes) const;
  void watch(watch_request request);
  void send(requests batch);
  void arm();
  void look_in(std::chrono::microseconds interval);
  void fail(const failure& failure);
  void settle_without_result(const std::vector<std::string>& names);
  void apply_assignments(const schedule& plan);
  void answer_questions(const schedule& plan);
  void apply_results(const schedule& plan);
  void run_bundles(const schedule& plan);
  void change_sets(schedule& plan);
  void end_in_order(const schedule& plan);
  void retract(fast_path_round round);
  std::chrono::nanoseconds longest_wait();
  std::shared_ptr<fast_path_slot> slot_for(const assignment& assignment, const signature& own);
  void try_later();
  void finish_generation();

  set_client_actor::pointer self;
  set_client_setup setup_;
  announced_operations operations_; ///< announced, and not yet taken by a schedule
  bucket_accumulator accumulator_;  ///< ids that wait for the rest of their bucket before they are sent
  /// Time of the pending tick; earlier ticks are ignored.
  std::optional<caf::actor_clock::time_point> next_tick_;
  std::vector<fast_path_round> retractions_; ///< to be retried, because the submission queue was busy
  bool joined_ = false;                      ///< this member has joined: zeros stand in for its tensors
  error end_reason_;                         ///< why the generation ended
  std::optional<departed_member> departed_;  ///< ended the generation in order; reset once reported
  bool queue_ended_ = true;                  ///< the submission queue has been given end_reason_
  bool retrying_ = false;
  fast_path_watch fast_path_;
  std::chrono::microseconds look_interval_{};
  caf::actor_clock::time_point next_look_; ///< time of the pending look; earlier look messages are ignored
  caf::actor_clock::time_point judged_at_; ///< the last time that a silent member was reported
  /// Since when operations have waited at the leader.
  std::optional<caf::actor_clock::time_point> asked_since_;
};

set_client_actor::behavior_type set_client(set_client_actor::stateful_pointer<set_client_state> self,
                                           set_client_setup setup);

} // namespace farandole
