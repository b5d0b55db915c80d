// The faults of a simulated elastic job. Each fault happens after a number of messages, hits the sender or
// the receiver of the next message, and usually passes after a while.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/world/dice.hpp"
#include "tests/world/elastic_launcher.hpp"
#include "tests/world/elastic_service.hpp"
#include "tests/world/simulation.hpp"

namespace farandole::testing {

class elastic_faults {
public:
  using time_point = caf::actor_clock::time_point;

  /// All arguments must outlive this object. The faults are those of the options of the stage.
  elastic_faults(simulation& world, elastic_stage& stage, elastic_launcher& launcher,
                 elastic_service& service);

  /// Called before a message is delivered: applies the faults that are due.
  void arriving(process_id from, process_id to);
  /// Applies no more faults.
  void stop() { stopped_ = true; }
  /// Records a fault that a scenario causes.
  void disturb(const std::string& text);

  void kill(std::int32_t slot);
  /// Stops the process of the slot for this time.
  void stop(std::int32_t slot, std::chrono::nanoseconds lasts);

  std::size_t happened() const { return next_; }
  bool any() const { return last_ != time_point{}; }
  /// The end of the last fault; the epoch of the clock if there was none.
  time_point last() const { return last_; }

private:
  void note(const std::string& text);
  bool can_hit(const fault& injected, process_id worker) const;
  void apply(const fault& injected, process_id from, process_id to);
  void reorder(const fault& injected);
  void partition(const fault& injected, process_id process);
  void end_rendezvous(const fault& injected);
  void disturb_handshakes(const fault& injected, process_id process);
  void send_impostor(const fault& injected);
  void send_strangers(const fault& injected, process_id process);

  simulation& world_;
  elastic_stage& stage_;
  elastic_launcher& launcher_;
  elastic_service& service_;
  dice draw_;
  std::size_t next_ = 0;
  bool stopped_ = false;
  time_point last_{};
};

} // namespace farandole::testing
