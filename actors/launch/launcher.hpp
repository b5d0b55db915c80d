// The launcher: runs a job from its start to its end. It owns the rendezvous, the host driver and the actor system
// that they run on. It is the interface for command-line programs and hides the actors.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/event_loop/log.hpp"
#include "actors/launch/slot_spec.hpp"
#include "elastic/membership.hpp"
#include "elastic/worker_scheduler.hpp"
#include "messages/settings/settings.hpp"
#include "messages/values/error.hpp"

namespace farandole {

struct launcher_options {
  membership_rules members;
  settings values = settings::built_in();
  std::string secret;
  std::string bind_ip = "127.0.0.1";
  std::uint16_t port = 0;             ///< of the rendezvous; 0: any free port
  std::string journal;                ///< path of the rendezvous' journal; empty: it keeps no journal
  bool ignore_journal_damage = false; ///< use the records before the damage instead of refusing to start
  bool apart = false;                 ///< run only a rendezvous (serve()), for a launcher in another process
  /// Elastic jobs: the address of a rendezvous in another process, which listens on `port`. Empty: this launcher runs
  /// the rendezvous itself.
  std::string remote_ip;
  /// Names of the hosts of these slots, for messages about missing members.
  std::map<std::int32_t, std::string> hosts = {};
};

/// A job whose processes may change while it runs.
struct elastic_job {
  worker_scheduler_options scheduler;
  std::vector<host_slots> hosts;              ///< the hosts of a job without a script
  std::string script;                         ///< path of a program that prints hosts
  std::optional<std::int32_t> slots_per_host; ///< for hosts that the script prints without a number of slots
  /// Returns why a host that the script printed cannot be used, or an empty string. May block: it is not called on
  /// the loop.
  std::function<std::string(const std::string& host)> objection;
  /// Returns the process to start for a worker. Called on the loop.
  std::function<expected<slot_spec>(const worker_scheduler::start& start)> slot_for;
};

class launcher {
public:
  /// Blocks the signals that end a program, forks the process keeper and starts the rendezvous. The process must have
  /// only one thread when it calls this.
  static expected<std::unique_ptr<launcher>> open(const launcher_options& options);
  ~launcher();

  /// The port of the rendezvous.
  std::uint16_t port() const;
  /// The launcher's logger. It lives as long as the launcher.
  logger& log();
  /// Copies the output of a slot to `folder`/stdout and `folder`/stderr. Call it before the slot's process starts;
  /// while the job runs, call it only on the loop.
  error copy_output(slot_spec& slot, const std::string& folder);
  /// Starts the processes and waits for the end of the job. SIGINT, SIGTERM and SIGHUP end the job in order. Returns
  /// the launcher's exit code. Call it once.
  int run(std::vector<slot_spec> slots);
  /// The same for an elastic job.
  int run(const elastic_job& job);
  /// Starts no processes. The rendezvous serves members that another launcher starts, until SIGINT, SIGTERM or
  /// SIGHUP. Returns the exit code, which is not 0 if another rendezvous has replaced this one.
  int serve();

private:
  struct parts;
  static error start_own(parts& made, const launcher_options& options);
  void start_remote(const launcher_options& options);
  explicit launcher(std::unique_ptr<parts> made);

  std::unique_ptr<parts> parts_;
};

} // namespace farandole
