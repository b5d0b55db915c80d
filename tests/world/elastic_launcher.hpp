// The launcher's process of a simulated elastic job: the real elastic driver, with fakes for processes, the
// discovery script and the terminal. Discovery can return wrong hosts, and can let a host come and go.
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/launch/elastic_driver.hpp"
#include "tests/world/dice.hpp"
#include "tests/world/elastic_worker.hpp"

namespace farandole::testing {

class elastic_launcher {
public:
  using time_point = caf::actor_clock::time_point;

  explicit elastic_launcher(elastic_stage& stage);

  /// `rendezvous` takes slot_started, slot_exited, slot_retired and watch_generations.
  void start(const caf::actor& rendezvous);
  /// Ends the driver and its slots, and kills running workers.
  void take_down();

  bool ended() const { return ended_; }
  int code() const { return code_; }
  /// The launcher's messages for users.
  const std::vector<std::string>& user_messages() const { return user_messages_; }
  bool has_message(const char* part) const;

  /// All workers that were ever started, by slot.
  const std::map<std::int32_t, std::unique_ptr<elastic_worker>>& workers() const { return workers_; }
  /// Null if the slot was never started.
  elastic_worker* worker(std::int32_t slot) const;

  // ---- discovery ----

  /// From now on discovery finds these hosts instead of the planned ones.
  void find(std::vector<host_slots> hosts);
  /// Until the deadline discovery fails, finds no host, or leaves one out, depending on `number`.
  void lie(time_point deadline, std::uint64_t number);
  /// Until the deadline every other answer leaves a host out.
  void flap(time_point deadline, std::uint64_t number);

private:
  elastic_driver_spec spec(const caf::actor& rendezvous);
  slot_actor slot(std::int32_t number, const slot_owner_actor& driver);
  discoverer_actor discoverer(const discovery_owner_actor& driver);
  discovery_result discovered();
  void leave_one_out(std::vector<host_slots>& hosts) const;
  time_point now() const { return stage_.system.clock().now(); }

  elastic_stage& stage_;
  dice draw_;
  time_point begin_;
  elastic_driver_actor driver_;
  caf::actor discovery_;
  std::vector<caf::actor> slots_;
  std::vector<host_slots> hosts_;
  bool told_hosts_ = false;
  std::uint64_t answers_ = 0;
  std::uint64_t lie_ = 0;
  time_point lies_until_{};
  time_point flaps_until_{};
  std::map<std::int32_t, std::string> places_; ///< hosts, by slot
  std::map<std::int32_t, std::unique_ptr<elastic_worker>> workers_;
  std::vector<std::string> user_messages_;
  bool ended_ = false;
  int code_ = -1;
};

} // namespace farandole::testing
