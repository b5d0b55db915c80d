// The launcher: runs a job from its start to its end. It owns the rendezvous, the host driver and the actor system
// that they run on. It is the interface for command-line programs and hides the actors.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/event_loop/log.hpp"
#include "actors/launch/placer.hpp"
#include "actors/launch/slot_spec.hpp"
#include "elastic/discovery.hpp"
#include "elastic/membership.hpp"
#include "elastic/reach_check.hpp"
#include "elastic/worker_scheduler.hpp"
#include "messages/settings/settings.hpp"
#include "messages/values/error.hpp"
#include "messages/wire/placement.hpp"

namespace farandole {

struct gathered_records;
struct hands;
struct worker_ending;

struct launcher_options {
  membership_rules members;
  settings values = settings::built_in();
  std::string secret;
  std::vector<std::string> bind_ips = {"127.0.0.1"}; ///< of the rendezvous, all with one port
  std::uint16_t port = 0;                            ///< of the rendezvous; 0: any free port
  std::string journal = {};           ///< path of the rendezvous' journal; empty: it keeps no journal
  bool ignore_journal_damage = false; ///< use the records before the damage instead of refusing to start
  bool apart = false;                 ///< run only a rendezvous (serve()), for a launcher in another process
  /// Elastic jobs: the address of a rendezvous in another process, which listens on `port`. Empty: this launcher runs
  /// the rendezvous itself.
  std::string remote_ip = {};
  /// A connected socket of the program that has called this launcher (caller_output.hpp), or -1. Not closed.
  int call_descriptor = -1;
  /// The slot that receives the standard input of this process; -1: none.
  std::int32_t input_slot = -1;
  /// Adds to the report of a stall what these ranks are doing, from the event records of all workers in a folder. May be
  /// empty. Called on a thread of its own.
  std::function<std::string(const std::string& folder, const std::vector<std::int32_t>& ranks,
                            std::chrono::steady_clock::time_point deadline)>
      explain = {};
  /// The agents of other hosts.
  struct agents {
    std::vector<std::string>
        bind_ips;           ///< of the listener for agents, all with one port; empty: there are no agents
    std::uint16_t port = 0; ///< 0: any free port
    placer place;           ///< without a command if users start the agents
    std::size_t most_others = 0; ///< greatest number of agents that users start
    std::string version;         ///< of this program, for messages
    std::size_t workers = 1;     ///< greatest number of workers that run at once
  } agents = {};
};

/// The attempts to reach the addresses of hosts, by name of the host.
using reach_results = std::map<std::string, std::vector<connection_attempt>>;

/// What the agents of a job's hosts have reported, by name of the host.
using agent_facts = std::map<std::string, agent_hello>;

/// A job whose processes may change while it runs.
struct elastic_job {
  worker_scheduler_options scheduler;
  std::int32_t most_workers = 0; ///< if they serve calls: the greatest number that the caller may want
  discovered_hosts hosts;        ///< the hosts of a job without a script
  std::string script;            ///< path of a program that prints hosts, or a command for the shell
  std::optional<std::int32_t> slots_per_host; ///< for hosts that the script prints without a number of slots
  /// Whether a host that the script printed is another machine. May block: it is not called on the loop, and may run
  /// longer than the launcher.
  std::function<bool(const std::string& host)> is_remote;
  std::size_t first_agents = 0; ///< not 0: users start the agents, and the first workers wait for this number
  /// Returns the process to start for a worker. `agent` is null on this machine. Called on the loop.
  std::function<expected<slot_spec>(const worker_scheduler::start& start, const agent_hello* agent)> slot_for;
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
  /// Registers a file that is removed at the latest when this process has ended, even by SIGKILL.
  void remove_at_end(const std::string& path);
  /// Copies the output of a slot to `folder`/stdout and `folder`/stderr. Call it before the slot's process starts;
  /// while the job runs, call it only on the loop.
  error copy_output(slot_spec& slot, const std::string& folder);
  /// The port of the listener for agents; 0 without agents.
  std::uint16_t agent_port() const;
  /// Asks for agents, whose option --launcher is `addresses`: the calling program if there is one, else the user by
  /// printing `text`.
  void ask_for_agents(const std::string& addresses, const std::string& text);
  /// Starts the agents of these hosts and waits until all are connected; without hosts, waits for `count` agents that
  /// users start. If one fails, prints why and returns nothing; `exit_code` is then the launcher's exit code. Signals
  /// end the wait.
  std::optional<agent_facts> gather_agents(const std::vector<std::string>& hosts, std::size_t count,
                                           int& exit_code);
  /// Lets these hosts test which of their addresses the others reach. `own_host` is the name of the launcher's host among
  /// them, or empty. If a host is lost or a signal arrives, prints why and returns nothing; `exit_code` is then the
  /// launcher's exit code.
  std::optional<reach_results> test_hosts(const std::vector<reach_check::tested_host>& hosts,
                                          const std::string& own_host, int& exit_code);
  /// Names of the hosts of these slots, for messages about missing members. Call it before run().
  void expect_slots(const std::map<std::int32_t, std::string>& hosts);
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
  static error start_agents(parts& made, const launcher_options& options);
  std::shared_ptr<const hands> hands_of();
  std::function<void(const std::string&)> warner();
  void start_gatherer();
  /// Remembers how a worker ended, for its event record. If an elastic job has lost it, keeps the records of all workers.
  /// Called on the loop.
  void keep_record(const worker_ending& ending);
  /// Ends the traces, if there are any. Copies the event records of a job that has failed to files. Tells the user how to
  /// read them.
  void keep_records(int code);
  using line_receiver = std::function<void(const std::string& line)>;
  /// Prints a line that `request` asks the gatherer for, and waits for it. The receiver is called once, on the loop.
  void print_line_of(const std::function<void(const line_receiver& give)>& request);
  /// Copies the event records of all workers to a new folder. `done` is called on the loop.
  void gather_records_of_all(std::chrono::seconds longest,
                             std::function<void(const gathered_records& gathered)> done);
  /// Returns the new folder, and reports missing records. Empty: no worker has a record.
  std::string report_gathered(const gathered_records& gathered);
  void report_process(std::int32_t slot, const std::string& host, std::int32_t process);
  void start_input(const launcher_options& options);
  void start_remote(const launcher_options& options);
  explicit launcher(std::unique_ptr<parts> made);

  std::unique_ptr<parts> parts_;
};

} // namespace farandole
