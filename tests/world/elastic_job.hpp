// A whole elastic job in one thread on virtual time. The rendezvous, the elastic driver and the members with
// all their actors except the lanes are real; processes, discovery, links, data paths and faults are
// simulated from one seed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/world/elastic_play.hpp"
#include "tests/world/elastic_service.hpp"

namespace farandole {
class envelope;
}

namespace farandole::testing {

struct elastic_report {
  std::vector<std::string> problems; ///< empty if the job was correct
  std::vector<std::string> transcript;
  std::vector<std::string> user_messages; ///< the launcher's messages for users
  std::vector<std::int32_t> last_slots;   ///< slots of the last generation, by rank
  int code = -1;                          ///< exit code of the launcher
  std::uint64_t trace = 0;                ///< hash of the order of all steps
  std::uint64_t sequence = 0;             ///< hash of the bundles of all generations
  std::uint64_t generations = 0;
  std::uint64_t messages = 0;
  std::uint64_t on_fast_path = 0; ///< operations that succeeded on the fast path
  std::int32_t finished = 0;      ///< processes that completed training
  std::size_t faults = 0;         ///< number of faults that happened
};

/// The interface through which a fixed scenario observes and disturbs the job.
class elastic_world {
public:
  virtual ~elastic_world() = default;
  virtual std::uint64_t generation() const = 0;
  /// The slots of the last generation, by rank.
  virtual std::vector<std::int32_t> slots() const = 0;
  virtual void kill(std::int32_t slot) = 0;
  /// Blocks or unblocks messages between the slot's process and the rendezvous, in one direction or both.
  virtual void block_rendezvous(std::int32_t slot, bool present, bool back, bool blocked) = 0;
  virtual void break_rendezvous_link(std::int32_t slot, std::chrono::nanoseconds late) = 0;
  virtual void find(std::vector<host_slots> hosts) = 0;
  /// Unauthenticated peers connect to the listeners of the rendezvous for this time, and reconnect after an
  /// eviction.
  virtual void crowd_rendezvous(std::size_t strangers, stranger_kind kind,
                                std::chrono::nanoseconds lasts) = 0;
  /// Stops a process like SIGSTOP. The options must tell processes apart.
  virtual void stop(std::int32_t slot, std::chrono::nanoseconds lasts) = 0;
  virtual std::chrono::nanoseconds now() const = 0;

  /// Runs `action` after `wait`.
  virtual void after(std::chrono::nanoseconds wait, std::function<void()> action) = 0;
  /// The rendezvous; it can end and start again if it runs apart from the launcher.
  virtual elastic_service& service() = 0;
};

/// Called before each message is delivered. `from` and `to` are slots; -1 is the launcher with its
/// rendezvous, and lower numbers are separate rendezvous.
using elastic_scenario =
    std::function<void(elastic_world& world, std::int32_t from, std::int32_t to, const envelope& message)>;

elastic_report run_elastic(const elastic_options& options, bool transcript = false,
                           elastic_scenario scenario = {});

/// The report of a failed job: its seed, the shortest prefix of its faults with which it still fails, and the
/// transcript.
std::string story_of(const elastic_options& options);

} // namespace farandole::testing
