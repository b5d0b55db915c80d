// A member's worker for one process set: it carries what framework threads queued at the submission queue to the leader,
// keeps every operation until the schedule says what becomes of it, and hands bundles to the path connector. Whatever
// the worker holds when the generation ends, it settles.
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

/// Has more than 20 fields because a worker meets everything of a member: values that are passed once.
struct set_client_setup {
  std::shared_ptr<farandole::submission_queue> queue;
  farandole::address self;         ///< generation, set, own global rank
  std::int32_t leader = 0;         ///< global rank
  std::int32_t rank = 0;           ///< own, within the set
  std::int32_t members = 1;        ///< of the set
  std::vector<std::int32_t> ranks; ///< of a process set: global ranks of its members; none for the global set
  envelope_actor post;
  path_connector_actor connector;
  std::shared_ptr<farandole::lane> lane; ///< that the path connector feeds; may be null in tests
  set_client_watcher_actor
      member; ///< hears of an orderly end of the global set, and of who holds operations up;
              ///< may be null in tests
  stuck_rules stuck;
  inline_rules inline_tensors; ///< what travels with the requests
  std::set<std::int32_t>
      depends_on;                 ///< global ranks of those without whom no operation of this set completes
  process_set_manager_actor sets; ///< of the global set: hears of changes of the process sets
  /// Of a process set: its last schedule has come, and nothing is in the way of ending it; end() follows.
  std::function<void()> ended;
  /// All that was held when it ended is settled.
  std::function<void()> settled;
  /// "rank 1 on alpha", by global rank; none in tests.
  std::function<std::string(std::int32_t)> name_of;
  std::function<std::shared_ptr<farandole::shm_fast_path>()>
      fast_path;                          ///< of this generation, once connected; null where there is none
  std::size_t fast_path_limit_bytes = 0;  ///< of tensors that a cell of the fast path holds whole
  std::shared_ptr<result_memory> results; ///< with a fast path: for outputs of what sits there
  /// With a fast path: goes on with a collective of callers that may not come back, on a thread that may block.
  std::function<void(operation_state_ptr)> move;
  logger* log = nullptr;
};

struct set_client_state {
  static inline const char* name = "worker";

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
  /// `inline_bytes`: of the tensors that travel in `out` so far.
  void announce(operation_state_ptr operation, requests& batch, std::size_t& inline_bytes);
  void add_value(const operation_state& operation, requests& batch, std::size_t& inline_bytes) const;
  void watch(watch_request request);
  void send(requests batch);
  void arm();
  void look_in(std::chrono::microseconds interval);
  void apply_assignments(const schedule& plan);
  void answer_questions(const schedule& plan);
  void apply_results(const schedule& plan);
  void run_bundles(const schedule& plan);
  void change_sets(schedule& plan);
  void end_in_order(const schedule& plan);
  void retract(fast_path_round round);
  std::chrono::nanoseconds longest_wait();
  std::shared_ptr<fast_path_slot> seat_for(const assignment& assignment, const signature& own);
  void try_later();
  void finish_generation();

  set_client_actor::pointer self;
  set_client_setup setup_;
  announced_operations operations_;                       ///< that have been announced
  bucket_accumulator shelf_;                              ///< of these, what the leader has not heard yet
  std::optional<caf::actor_clock::time_point> next_tick_; ///< what comes before is void
  std::vector<fast_path_round> retractions_;              ///< the submission queue was busy
  bool joined_ = false;                                   ///< zeros stand in for this member
  error over_;                                            ///< why the generation ended
  std::optional<departed_member> departed_; ///< who ended it in order, until that has been told here
  bool queue_told_ = true;                  ///< of over_
  bool retrying_ = false;
  fast_path_watch fast_path_;
  std::chrono::microseconds look_interval_{};
  caf::actor_clock::time_point next_look_; ///< what comes before has been replaced by one that came sooner
  caf::actor_clock::time_point judged_at_; ///< the last time that some member was silent
  std::optional<caf::actor_clock::time_point> asked_since_; ///< then something had been asked of the leader
};

set_client_actor::behavior_type set_client(set_client_actor::stateful_pointer<set_client_state> self,
                                           set_client_setup setup);

} // namespace farandole
