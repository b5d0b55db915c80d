// The command line of `farandole run`. Options that are settings come from the table of settings. All errors of
// a command line are detected here, before any process is started.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "elastic/scheduler_hosts.hpp"
#include "elastic/worker_scheduler.hpp"
#include "messages/settings/settings.hpp"
#include "tools/farandole/cli/option_description.hpp"
#include "tools/farandole/csm_query.hpp"
#include "tools/farandole/hosts.hpp"
#include "tools/farandole/mpi_command.hpp"

namespace farandole {

/// The version of the Horovod interface, which `horovodrun --version` prints.
inline constexpr std::string_view interface_version = "0.28.1";

/// The program that starts the workers.
enum class launch_mode : std::uint8_t {
  agents, ///< this launcher, and its agents on other hosts
  mpirun,
  jsrun
};

struct run_request {
  enum class kind : std::uint8_t { run, check, help, version } value = kind::run;
  std::string text; ///< the help

  std::int32_t processes = 0;
  std::vector<host_slots> hosts; ///< have enough slots; names not resolved yet; empty with a script
  batch_scheduler allocated_by =
      batch_scheduler::none; ///< the scheduler from which `hosts` are; none: the user's
  launch_mode mode = launch_mode::agents;
  std::string mpi_args;       ///< of mpirun or jsrun
  std::string binding_args;   ///< of mpirun or jsrun
  bool print_command = false; ///< print the command line of mpirun or jsrun, and start nothing
  mpi_traits mpi;             ///< what a caller knows about mpirun in place of the launcher
  std::int32_t rank_file_cpus =
      0; ///< not 0: write a rank file for jsrun and hosts with so many CPUs; start nothing
  bool elastic = false;
  worker_scheduler_options scheduler; ///< for an elastic job
  std::string discovery_script;       ///< path, or a command for the shell; empty: the hosts are fixed
  std::optional<std::int32_t> slots_per_host;
  std::string journal;                 ///< path of the rendezvous' journal; empty: none
  std::string rendezvous_ip;           ///< address of a separate rendezvous; empty: the launcher runs its own
  std::uint16_t rendezvous_port = 0;   ///< port of a separate rendezvous
  std::vector<std::string> interfaces; ///< empty: the user has named none
  std::optional<std::int32_t> ssh_port;
  std::string ssh_identity_file;
  std::int32_t fewest_agents = 0; ///< not 0: users start the agents, and the job waits for this number
  std::int32_t most_agents = 0;
  std::uint16_t agent_port = 0; ///< on which these agents are awaited; 0: any free port
  std::string output_folder;
  bool prefix_timestamp = false;
  bool verbose = false;
  bool tcp_only = false;
  std::set<std::string> remote_hosts; ///< names that are reached by ssh without looking at their addresses
  /// An address of this host: the caller of the launcher starts the workers, which reach the launcher there. Empty: the
  /// launcher and its agents start them.
  std::string caller_address;
  std::int32_t input_rank = -1; ///< the rank that receives the standard input; -1: none
  int call_descriptor = -1;     ///< socket of the program that has called the launcher; -1: none
  bool session = false;         ///< the caller keeps the workers between calls, and changes their number
  settings values = settings::built_in();
  std::vector<std::string> warnings; ///< to be printed to standard error
  std::vector<std::string> command;
};

/// The facts about the environment that the parser needs.
struct surroundings {
  environment_lookup environment;
  bool has_jsrun = false;             ///< whether jsrun is on PATH
  std::vector<std::string> variables; ///< names of all environment variables
  file_reader read_file;              ///< for the lists of a batch scheduler
  output_reader output_of;            ///< for the queries of a batch scheduler
};

/// `program` is the name in the usage line; a program whose name ends in "check" takes no command. Reads the
/// config file and the host file. The error's text begins with the usage line, as argparse's does.
expected<run_request> parse_run(const std::string& program, std::span<const std::string> words,
                                const surroundings& around);

/// The options of `farandole run` that its help shows.
std::vector<option_description> run_options();

} // namespace farandole
