// A member's worker for one process set: it carries what framework threads queued at the door to the leader,
// keeps every operation until the schedule says what becomes of it, and hands bundles to the mover. Whatever
// the worker holds when the generation ends, it settles.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/door/door.hpp"
#include "actors/interfaces/lane.hpp"
#include "actors/interfaces/process_sets.hpp"
#include "actors/interfaces/worker.hpp"
#include "actors/kit/envelope_actor.hpp"
#include "actors/kit/log.hpp"
#include "actors/set/announced_operations.hpp"
#include "actors/set/board_watch.hpp"
#include "actors/set/lane.hpp"
#include "collectives/paths/local/board.hpp"
#include "collectives/plan/bucket_shelf.hpp"
#include "collectives/plan/inline_reduction.hpp"
#include "elastic/stuck_rules.hpp"

namespace farandole {

/// Has more than 20 fields because a worker meets everything of a member: values that are passed once.
struct worker_setup {
  std::shared_ptr<farandole::door> door;
  farandole::address self;         ///< generation, set, own global rank
  std::int32_t leader = 0;         ///< global rank
  std::int32_t rank = 0;           ///< own, within the set
  std::int32_t members = 1;        ///< of the set
  std::vector<std::int32_t> ranks; ///< of a process set: global ranks of its members; none for the global set
  envelope_actor post;
  mover_actor mover;
  std::shared_ptr<farandole::lane> lane; ///< that the mover feeds; may be null in tests
  worker_watcher_actor member; ///< hears of an orderly end of the global set, and of who holds operations up;
                               ///< may be null in tests
  stuck_rules stuck;
  inline_rules inline_tensors; ///< what travels with the requests
  std::set<std::int32_t>
      depends_on;  ///< global ranks of those without whom no operation of this set completes
  sets_actor sets; ///< of the global set: hears of changes of the process sets
  /// Of a process set: its last schedule has come, and nothing is in the way of ending it; end() follows.
  std::function<void()> ended;
  /// All that was held when it ended is settled.
  std::function<void()> settled;
  /// "rank 1 on alpha", by global rank; none in tests.
  std::function<std::string(std::int32_t)> name_of;
  std::function<std::shared_ptr<farandole::board>()>
      board;                              ///< of this generation, once connected; null where there is none
  std::size_t board_limit_bytes = 0;      ///< of tensors that a cell of the board holds whole
  std::shared_ptr<result_memory> results; ///< with a board: for outputs of what sits there
  /// With a board: goes on with a collective of callers that may not come back, on a thread that may block.
  std::function<void(pending_ptr)> move;
  logger* log = nullptr;
};

struct worker_state {
  static inline const char* name = "worker";

  explicit worker_state(worker_actor::pointer owner) : self(owner) {}
  void begin(worker_setup how);

  void drain_door();
  void follow(const envelope& message);
  void leave(departure how);
  void end(const error& why);
  void retry();
  void look();
  void report(const bundle_finished& what);
  void tick();
  stall_list stalled(std::chrono::nanoseconds limit);
  void judge(const processes_silent& what);

private:
  /// `inline_bytes`: of the tensors that travel in `out` so far.
  void announce(pending_ptr operation, requests& out, std::size_t& inline_bytes);
  void add_value(const pending& operation, requests& out, std::size_t& inline_bytes) const;
  void watch(watch_request request);
  void send(requests what);
  void arm();
  void look_in(std::chrono::microseconds interval);
  void apply_assignments(const schedule& plan);
  void answer_questions(const schedule& plan);
  void apply_results(const schedule& plan);
  void run_bundles(const schedule& plan);
  void change_sets(schedule& plan);
  void end_in_order(const schedule& plan);
  void retract(board_round what);
  std::chrono::nanoseconds longest_wait();
  std::shared_ptr<board_seat> seat_for(const assignment& what, const signature& own);
  void try_later();
  void finish_generation();

  worker_actor::pointer self;
  worker_setup setup_;
  announced_operations operations_;                       ///< that have been announced
  bucket_shelf shelf_;                                    ///< of these, what the leader has not heard yet
  std::optional<caf::actor_clock::time_point> next_tick_; ///< what comes before is void
  std::vector<board_round> retractions_;                  ///< the door was busy
  bool joined_ = false;                                   ///< zeros stand in for this member
  error over_;                                            ///< why the generation ended
  std::optional<departed_member> departed_; ///< who ended it in order, until that has been told here
  bool door_told_ = true;                   ///< of over_
  bool retrying_ = false;
  board_watch board_;
  std::chrono::microseconds look_interval_{};
  caf::actor_clock::time_point next_look_; ///< what comes before has been replaced by one that came sooner
  caf::actor_clock::time_point judged_at_; ///< the last time that some member was silent
  std::optional<caf::actor_clock::time_point> asked_since_; ///< then something had been asked of the leader
};

worker_actor::behavior_type worker(worker_actor::stateful_pointer<worker_state> self, worker_setup how);

} // namespace farandole
