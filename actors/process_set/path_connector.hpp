// The path connector: the actor of one member in one process set that sends the addresses of this member's paths to
// the address exchange, makes the lane connect the paths, feeds the lane with bundles, and aborts it when the
// generation ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "actors/event_loop/envelope_actor.hpp"
#include "actors/event_loop/log.hpp"
#include "actors/interfaces/lane.hpp"
#include "actors/process_set/lane.hpp"
#include "collectives/transport/registry/data_paths.hpp"

namespace farandole {

struct path_connector_setup {
  set_view set;
  std::uint32_t set_id = 0; ///< for users; set.set is the number in messages
  path_options paths;
  farandole::address self; ///< generation, set, own global rank
  std::int32_t leader = 0; ///< global rank
  envelope_actor router;
  std::function<void(error)> broke;  ///< called when the paths cannot be used; from any thread
  std::function<void()> ready;       ///< called once connected; from the event loop
  std::function<void()> drained;     ///< called from the lane's thread
  std::shared_ptr<lane_thread> lane; ///< shared with the runtime, which joins its thread
  std::chrono::nanoseconds connect_timeout{};
  std::string connect_citation;
  /// Called once connected, from the lane's thread.
  std::function<void(std::shared_ptr<shm_fast_path>, std::shared_ptr<heartbeat_words>)> connected;
  logger* log = nullptr;
};

struct path_connector_state {
  static inline const char* name = "path_connector";

  explicit path_connector_state(path_connector_actor::pointer owner) : self(owner) {}
  void begin(path_connector_setup setup);

  void receive_addresses(const envelope& message);
  void run(const lane_task_ptr& task);
  void end(const error& reason);
  void drain();
  void introduce(const path_addresses& addresses);
  void ready() const { setup_.ready(); }

private:
  void connect(std::vector<path_addresses> all);
  void pass_on_bundles();

  path_connector_actor::pointer self;
  path_connector_setup setup_;
  bool connecting_ = false; ///< the paths are connected, or the lane is connecting them
  bool passes_on_ = false;  ///< bundles go to the lane: it has been told to connect the paths, or to abort
  std::vector<lane_task_ptr> early_; ///< bundles that came before that
};

path_connector_actor::behavior_type
path_connector(path_connector_actor::stateful_pointer<path_connector_state> self, path_connector_setup setup);

} // namespace farandole
