// The rendezvous of a simulated elastic job: the real one, in the launcher's process or apart from it. Apart,
// it has a journal on a simulated disk and one life after another, or two at once: each is a process of its
// own, and all are called at one address.
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

  /// Starts it, and tells the stage where it is called.
  explicit elastic_service(elastic_stage& stage);
  /// None begins any more, and those that run leave in order, which takes them a while.
  void close();
  /// Nothing is left of them.
  void take_down();

  /// Whom the launcher tells of its slots: the rendezvous, or the launcher's end of a link to it.
  const caf::actor& for_launcher() const { return for_launcher_; }
  /// Why the launcher's end gave up, for people.
  const std::vector<std::string>& said() const { return said_; }

  bool is_rendezvous(process_id process) const { return lives_.contains(process); }
  /// The one that was started last.
  process_id latest() const { return latest_; }
  /// When it gives up waiting for those that were in and have not come back.
  time_point gives_up_at() const { return gives_up_at_; }
  /// One sends this: it must be in its journal.
  void sends(process_id process, const welcome& greeting);

  // ---- faults, where it is apart ----

  /// What the disk has not been told yet another life could not know: it is not the time to end one.
  bool may_end() const { return apart() && !disk_.behind(); }
  /// All that run end; `machine`: and the disk keeps only what was synced.
  void end(bool machine);
  /// Calls this in the midst of a call of the disk, 1 the next.
  void at_disk_call(std::uint64_t call, std::function<void()> action) {
    disk_.at_call(call, std::move(action));
  }
  /// One from the journal that was written last, if none runs.
  void start();
  /// One more from a copy of the journal. Whoever calls reaches either.
  void start_second();
  /// Of two, that of the lower epoch ends.
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
  void hear(process_id process, const std::string& line);
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
  std::set<process_id> warned_; ///< of the disk, since it is full
  bool warned_at_all_ = false;
  bool had_two_ = false;
  bool stopped_ = false;
  std::vector<std::string> said_;
};

} // namespace farandole::testing
