// A whole elastic job in one thread on virtual time: the real rendezvous, elastic driver and members with all
// actors below them but the lanes; processes, discovery, links, data paths and faults are simulated from one
// seed.
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
  std::vector<std::string> problems; ///< empty: all went as it must
  std::vector<std::string> transcript;
  std::vector<std::string> said;        ///< by the launcher, for people
  std::vector<std::int32_t> last_slots; ///< of the last generation, by rank
  int code = -1;                        ///< the launcher's
  std::uint64_t trace = 0;              ///< who ran when
  std::uint64_t sequence = 0;           ///< which bundles moved in which generation
  std::uint64_t generations = 0;
  std::uint64_t messages = 0;
  std::uint64_t on_fast_path = 0; ///< operations that ended well on the fast path
  std::int32_t finished = 0;      ///< processes that came to the end of training
  std::size_t faults = 0;         ///< that happened
};

/// What a fixed scenario sees of the job, and does to it.
class elastic_world {
public:
  virtual ~elastic_world() = default;
  virtual std::uint64_t generation() const = 0;
  /// Of the last generation, by rank.
  virtual std::vector<std::int32_t> slots() const = 0;
  virtual void kill(std::int32_t slot) = 0;
  /// Nothing passes between the slot's process and the rendezvous, in one direction or both.
  virtual void block_rendezvous(std::int32_t slot, bool present, bool back, bool blocked) = 0;
  virtual void break_rendezvous_link(std::int32_t slot, std::chrono::nanoseconds late) = 0;
  virtual void find(std::vector<host_slots> hosts) = 0;
  /// Strangers come to the listeners of the rendezvous, and again when they have to go, for so long.
  virtual void crowd_rendezvous(std::size_t strangers, stranger_kind kind,
                                std::chrono::nanoseconds lasts) = 0;
  /// As SIGSTOP does; the options say that processes are told apart.
  virtual void stop(std::int32_t slot, std::chrono::nanoseconds lasts) = 0;
  virtual std::chrono::nanoseconds now() const = 0;

  /// Does it so much later.
  virtual void after(std::chrono::nanoseconds wait, std::function<void()> action) = 0;
  /// Where it is apart it can end, and come again.
  virtual elastic_service& service() = 0;
};

/// Called before each message is handed over; slots, or -1 for the launcher and a rendezvous with it, and
/// less for one apart.
using elastic_scenario =
    std::function<void(elastic_world& world, std::int32_t from, std::int32_t to, const envelope& message)>;

elastic_report run_elastic(const elastic_options& options, bool transcript = false,
                           elastic_scenario scenario = {});

/// What to print of a job that went wrong: its seed, the fewest of its faults, from the first on, with which
/// it still does, and what happened then.
std::string story_of(const elastic_options& options);

} // namespace farandole::testing
