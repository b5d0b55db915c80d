// A job of this host's processes from its first to its last moment: the rendezvous, the host driver and what
// they stand on. It is what a command line needs, and shows nothing of actors.
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
  std::uint16_t port = 0;             ///< of the rendezvous; 0: any free one
  std::string journal;                ///< its file; empty: the rendezvous keeps none
  bool ignore_journal_damage = false; ///< goes on with what is before it
  bool apart = false;                 ///< serve() a launcher that is another process
  /// Elastic jobs: the address of a rendezvous that runs apart; it has `port`. Empty: this launcher has its
  /// own.
  std::string remote_ip;
  /// Names of the hosts of these slots, for messages about members that have not come.
  std::map<std::int32_t, std::string> hosts = {};
};

/// A job whose processes may change while it runs.
struct elastic_job {
  worker_scheduler_options scheduler;
  std::vector<host_slots> hosts;              ///< without a script, these
  std::string script;                         ///< path of a program that prints hosts
  std::optional<std::int32_t> slots_per_host; ///< where the script tells none
  /// Why a host that the script printed cannot be used; empty: it can. May block; not called on the loop.
  std::function<std::string(const std::string& host)> objection;
  /// What to start for a worker; on the loop.
  std::function<expected<slot_spec>(const worker_scheduler::start& start)> slot_for;
};

class launcher {
public:
  /// Blocks the signals that end a program, forks a keeper and starts the rendezvous: the process must have
  /// one thread only.
  static expected<std::unique_ptr<launcher>> open(const launcher_options& options);
  ~launcher();

  /// Of the rendezvous.
  std::uint16_t port() const;
  /// The launcher's own; it lives as long as the launcher.
  logger& log();
  /// Copies of a slot's output go to `folder`/stdout and `folder`/stderr. Before its process starts, and on
  /// the loop once it runs.
  error copy_output(slot_spec& slot, const std::string& folder);
  /// Starts the processes and waits for the end of the job, or for SIGINT, SIGTERM or SIGHUP, which end it in
  /// order. Returns the launcher's exit code. Once.
  int run(std::vector<slot_spec> slots);
  /// The same for an elastic job.
  int run(const elastic_job& job);
  /// Starts nothing: the rendezvous serves members that others start, until SIGINT, SIGTERM or SIGHUP.
  /// Returns the exit code: not 0 if another rendezvous has taken its place.
  int serve();

private:
  struct parts;
  static error start_own(parts& made, const launcher_options& options);
  void start_remote(const launcher_options& options);
  explicit launcher(std::unique_ptr<parts> made);

  std::unique_ptr<parts> parts_;
};

} // namespace farandole
