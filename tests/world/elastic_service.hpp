// The rendezvous of a simulated elastic job: the real actor, in the launcher's process or in a separate
// process. A separate rendezvous has a journal on a simulated disk, and can end and start again; two can also
// run at once. Each is a process of its own, and all have the same address.
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/world/dice.hpp"
#include "tests/world/elastic_worker.hpp"
#include "tests/world/simulated_disk.hpp"

namespace farandole::testing {

class elastic_service {
public:
  using time_point = caf::actor_clock::time_point;

  /// Starts the rendezvous, and stores its address in the stage.
  explicit elastic_service(elastic_stage& stage);
  /// Starts no more rendezvous, and makes the running ones leave in order, which takes a while.
  void close();
  /// Ends all actors.
  void take_down();

  /// The actor that the launcher informs about its slots: the rendezvous, or the launcher's end of a link to
  /// it.
  const caf::actor& for_launcher() const { return for_launcher_; }
  /// The reasons for which the launcher's end gave up, for users.
  const std::vector<std::string>& user_messages() const { return user_messages_; }

  bool is_rendezvous(process_id process) const { return lives_.contains(process); }
  /// The rendezvous that was started last.
  process_id latest() const { return latest_; }
  /// The time at which it stops waiting for former members that have not rejoined.
  time_point gives_up_at() const { return gives_up_at_; }
  /// A rendezvous sends this welcome: its journal must contain the generation.
  void sends(process_id process, const welcome& greeting);

  // ---- faults of a separate rendezvous ----

  /// False while records are not yet on the disk, since the next rendezvous could not know them.
  bool may_end() const { return apart() && !disk_.behind(); }
  /// Ends all running rendezvous; with `machine` the disk keeps only synced data.
  void end(bool machine);
  /// Calls `action` during the `call`th call of the disk from now on.
  void at_disk_call(std::uint64_t call, std::function<void()> action) {
    disk_.at_call(call, std::move(action));
  }
  /// Starts a rendezvous from the latest journal, if none runs.
  void start();
  /// Starts a second rendezvous from a copy of the journal. Connections reach either of them.
  void start_second();
  /// Ends the rendezvous of the lower epoch.
  void end_lower();
  void fill_disk(bool full);

private:
  struct life {
    caf::actor actor;
    std::uint64_t epoch = 0;
    std::string journal_path;
    bool runs = true;
  };

  bool apart() const { return stage_.options.apart; }
  void call_from_launcher();
  void begin(const std::string& journal_path);
  void stepped_down(process_id process);
  void end(process_id process);
  void record_line(process_id process, const std::string& line);
  std::size_t running() const;
  time_point now() const { return stage_.system.clock().now(); }

  elastic_stage& stage_;
  dice draw_;
  simulated_disk disk_;
  std::vector<std::unique_ptr<logger>> logs_;
  caf::actor for_launcher_;
  std::map<process_id, life> lives_;
  process_id latest_ = launcher_process;
  time_point gives_up_at_ = time_point::max();
  std::set<process_id> warned_; ///< rendezvous that have warned since the disk is full
  bool warned_at_all_ = false;
  bool had_two_ = false;
  bool stopped_ = false;
  std::vector<std::string> user_messages_;
};

} // namespace farandole::testing
