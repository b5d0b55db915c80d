// A member's mover for one process set: it introduces this member's data paths to the others, has the lane
// connect them, feeds the lane with bundles, and makes it give up when the generation ends.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "actors/interfaces/lane.hpp"
#include "actors/kit/envelope_actor.hpp"
#include "actors/kit/log.hpp"
#include "actors/set/lane.hpp"
#include "collectives/paths/data_paths.hpp"

namespace farandole {

struct mover_setup {
  set_view set;
  path_options paths;
  farandole::address self; ///< generation, set, own global rank
  std::int32_t leader = 0; ///< global rank
  envelope_actor post;
  std::function<void(error)> broke;  ///< the paths cannot be used; from any thread
  std::function<void()> ready;       ///< connected; from the loop
  std::function<void()> drained;     ///< from the lane's thread
  std::shared_ptr<lane_thread> lane; ///< shared with the runtime, which joins its thread
  std::chrono::nanoseconds connect_timeout{};
  std::string connect_citation;
  /// Once connected, from the lane's thread.
  std::function<void(std::shared_ptr<board>, std::shared_ptr<heartbeat_words>)> connected;
  logger* log = nullptr;
};

struct mover_state {
  static inline const char* name = "mover";

  explicit mover_state(mover_actor::pointer owner) : self(owner) {}
  void begin(mover_setup how);

  void hear(const envelope& message);
  void run(const lane_job_ptr& job);
  void end(const error& why);
  void drain();
  void introduce(const introduction& mine);
  void ready() const { setup_.ready(); }

private:
  void connect(std::vector<introduction> all);

  mover_actor::pointer self;
  mover_setup setup_;
  bool connecting_ = false;         ///< the lane knows the others, or is getting to know them
  std::vector<lane_job_ptr> early_; ///< until then
};

mover_actor::behavior_type mover(mover_actor::stateful_pointer<mover_state> self, mover_setup how);

} // namespace farandole
