// One member of a simulated job: the real submission queue and the real set client, a lane whose bundles only
// take virtual time, and a trainer that plays this member's part of the script like a framework thread.
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "actors/interfaces/negotiation.hpp"
#include "actors/interfaces/set_client.hpp"
#include "actors/process_set/lane.hpp"
#include "actors/submission/submission_queue.hpp"
#include "actors/submission/unnamed_calls.hpp"
#include "tests/world/chronicle.hpp"
#include "tests/world/dice.hpp"
#include "tests/world/script.hpp"

namespace farandole::testing {

/// The objects that all players share.
struct stage {
  const script& play;
  chronicle& log;
  fusion_scheduler_actor scheduler; ///< receives the finished bundles of the leader
  std::int32_t finished = 0;        ///< players that have played all steps
  std::int32_t in_last_step = 0;    ///< players that have begun the last step
  std::int32_t last_to_join = -1;
  std::uint64_t without_result = 0; ///< operations to which no member contributed
  std::uint64_t as_rows = 0;        ///< operations that became gathers of other members' rows
  std::int32_t furthest = -1;       ///< last step that any player has begun
  std::function<void(std::int32_t step)> entered = {}; ///< called when the first player begins a step
};

class player {
public:
  player(caf::actor_system& system, stage& stage, std::int32_t rank, const caf::actor& router,
         const caf::actor& watcher);
  /// Starts the trainer.
  void start();
  /// Closes the submission queue and stops the actors.
  void stop();
  set_client_actor worker() const { return worker_; }

private:
  struct queued {
    std::unique_ptr<lane_task> task;
    bool may_stand_in = false;
  };

  caf::behavior lane(caf::event_based_actor* self);
  void run_next(caf::event_based_actor* self);
  void finish(caf::event_based_actor* self);

  caf::behavior trainer(caf::event_based_actor* self);
  void begin_step();
  void submit_some(caf::event_based_actor* self);
  void submit(std::int32_t tensor);
  std::string name_of(std::int32_t tensor);
  void submit_group(std::int32_t first);
  void watch(std::int32_t tensor, operation_state_ptr operation);
  void settled(std::int32_t tensor, const operation_state& operation);
  void check_result(std::int32_t tensor, const result& outcome, const std::string& location);
  void join();
  void end_step();

  stage& stage_;
  std::int32_t rank_;
  dice draw_;
  std::shared_ptr<farandole::submission_queue> submissions_;
  unnamed_calls unnamed_;
  set_client_actor worker_;

  caf::actor lane_;
  std::deque<queued> queue_; ///< the first is running
  bool joined_ = false;

  caf::actor trainer_;
  std::int32_t step_ = 0;
  /// Tensors still to be submitted in this step, a group by its first tensor.
  std::vector<std::int32_t> order_;
  std::vector<operation_state_ptr> regretted_;
  std::size_t in_flight_ = 0;
};

} // namespace farandole::testing
