// Host discovery for elastic jobs. The discoverer runs the user's discovery script periodically and sends the hosts
// that it prints to the host driver. If the script fails, hangs or prints invalid text, the result describes the
// problem.
#pragma once

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/event_loop/loop.hpp"
#include "actors/launch/process.hpp"
#include "actors/launch/slot.hpp"
#include "elastic/discovery.hpp"

namespace farandole {

/// The result of one run of the script.
struct discovery_result {
  discovered_hosts found;
  std::string problem; ///< if not empty, why the run found no hosts
  std::string printed; ///< with a problem: the output of the script, for messages
};

using discovery_owner_actor = caf::typed_actor<caf::reacts_to<discovery_result>>;

using run_atom = caf::atom_constant<caf::atom("run")>;
using close_atom = caf::atom_constant<caf::atom("close")>;
using checked_atom = caf::atom_constant<caf::atom("checked")>;

using discoverer_actor = caf::typed_actor<
    /// Run the script now, and again some time after each result.
    caf::reacts_to<run_atom>,
    /// End, and kill a running script.
    caf::reacts_to<close_atom>,
    /// INTERNAL: the script of this run has ended.
    caf::reacts_to<ended_atom, std::uint64_t>,
    /// INTERNAL: stream 0 (output) or 1 (errors) can be read.
    caf::reacts_to<output_atom, int>,
    /// INTERNAL: the timeout of this run's script has expired.
    caf::reacts_to<overdue_atom, std::uint64_t>,
    /// INTERNAL: the hosts of this result were checked.
    caf::reacts_to<checked_atom, discovery_result>>;

struct discoverer_spec {
  process_spec script;
  std::string name; ///< of the script, for messages
  std::optional<std::int32_t> slots_per_host;
  std::chrono::nanoseconds interval = std::chrono::seconds{1}; ///< from a result to the next run
  std::chrono::nanoseconds timeout = std::chrono::seconds{30};
  /// Whether this host is another machine. It runs on a thread of its own, so it may block, also longer than the
  /// discoverer lives. May be empty: then all hosts are this machine. A host is not checked again.
  std::function<bool(const std::string& host)> is_remote;
};

class discoverer_state {
public:
  static inline const char* name = "discoverer";
  static constexpr std::size_t most_output_bytes = 1 << 20;

  explicit discoverer_state(discoverer_actor::pointer self) : self_(self) {}
  ~discoverer_state();

  discoverer_actor::behavior_type begin(const discoverer_spec& spec, discovery_owner_actor owner);

private:
  struct stream {
    descriptor_watch watch;
    std::string text;
  };

  /// Where a thread that checks hosts, which may outlive this actor, sends the result. Null once the actor has ended.
  struct result_target {
    std::mutex mutex;
    discoverer_actor actor;
  };

  void run();
  void open(int number, descriptor pipe);
  void read(int number);
  void ended(std::uint64_t run);
  void overdue(std::uint64_t run);
  void end_process();
  void fail(const std::string& manner);
  void check(discovery_result result);
  void deliver(discovery_result result);

  discoverer_actor::pointer self_;
  discoverer_spec spec_;
  discovery_owner_actor owner_;
  farandole::process process_;
  std::uint64_t run_ = 0; ///< number of the current run; messages about earlier runs are ignored
  descriptor_watch watched_;
  stream streams_[2];
  std::map<std::string, bool> remote_; ///< hosts that were checked: whether they are other machines
  std::shared_ptr<result_target> target_ = std::make_shared<result_target>();
};

discoverer_actor::behavior_type discoverer(discoverer_actor::stateful_pointer<discoverer_state> self,
                                           const discoverer_spec& spec, const discovery_owner_actor& owner);

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::discovery_result)
