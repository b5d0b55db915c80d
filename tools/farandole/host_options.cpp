#include "tools/farandole/host_options.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "tools/farandole/elastic_options.hpp"
#include "tools/farandole/job_placer.hpp"

namespace farandole {

namespace {

error wrong(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

/// Parses "N" or "MIN:MAX".
error find_agents(const std::string& text, run_request& request) {
  const auto colon = text.find(':');
  const auto low = parse_slots(text.substr(0, colon));
  const auto high = colon == std::string::npos ? low : parse_slots(text.substr(colon + 1));
  if (!low || !high || *low < 1 || *high < *low || *high > most_slots)
    return wrong("--agents " + text + " is neither a number of agents nor MIN:MAX, as in --agents 2:8");
  if (*high != *low && !request.elastic)
    return wrong("--agents " + text + ": only an elastic job (--min-np) can have a range of hosts");
  request.fewest_agents = *low;
  request.most_agents = *high;
  if (request.values.text(setting::secret_file).empty() && request.values.text(setting::secret).empty())
    return wrong(
        "--agents needs a secret that the agents have, too: set FARANDOLE_SECRET_FILE to a file with it "
        "(umask 077; openssl rand -hex 16 > secret)");
  return {};
}

/// The hosts that the user has named.
error read_hosts(const host_options& options, run_request& request) {
  std::string text = options.hosts;
  if (!options.hostfile.empty()) {
    std::ifstream file(options.hostfile);
    std::ostringstream content;
    if (!file || !(content << file.rdbuf()))
      return wrong("host file " + options.hostfile + " cannot be read");
    text = content.str();
  }
  auto hosts = options.hostfile.empty() ? parse_hosts(text) : parse_hostfile(text, options.hostfile);
  if (!hosts)
    return hosts.error();
  request.hosts = std::move(*hosts);
  return {};
}

/// The hosts of the job of a batch scheduler in which the launcher runs; none outside of one.
error take_allocated_hosts(run_request& request, const surroundings& around) {
  auto found = find_scheduler_hosts(around.environment, around.read_file);
  if (!found)
    return found.error();
  if (!found->csm_allocation.empty()) {
    auto hosts = query_csm_hosts(found->csm_allocation, around.output_of);
    if (!hosts)
      return hosts.error();
    found->hosts = std::move(*hosts);
  }
  request.allocated_by = found->scheduler;
  request.hosts = std::move(found->hosts);
  return {};
}

/// The number of slots of all hosts; more than most_slots if it is too large.
std::int32_t all_slots(const std::vector<host_slots>& hosts) {
  std::int32_t sum = 0;
  for (const auto& host : hosts)
    sum = std::min(sum + host.slots, most_slots + 1);
  return sum;
}

/// Why port and key of ssh have no effect; empty if they have.
std::string reason_without_ssh(const run_request& request, const surroundings& around) {
  const auto shell = remote_shell_of(request, {}, around.environment);
  if (!shell)
    return {}; // the error is reported when the job starts
  if (!is_openssh(*shell))
    return "the remote shell (" + shell->origin + ") is not ssh";
  const bool by_srun = shell->remote_shell.empty() && request.allocated_by == batch_scheduler::slurm;
  return by_srun ? "srun starts the agents" : "";
}

} // namespace

void add_host_options(CLI::App& app, host_options& into, run_request& request) {
  auto* hosts =
      app.add_option(
             "-H,--hosts", into.hosts,
             "Hosts and their slots. Other hosts are reached by ssh. Default: the hosts of the job of "
             "Slurm, LSF or PBS in which the launcher runs, otherwise this host.")
          ->type_name("NAME:SLOTS,...");
  app.add_option("--remote-hosts", into.remote_hosts,
                 "Hosts that are reached by ssh even if their names are those of this host.")
      ->type_name("A,B");
  auto* file = app.add_option("--hostfile", into.hostfile, "File with a line 'name slots=N' for each host.")
                   ->type_name("FILE");
  auto* script = app.add_option("--host-discovery-script", request.discovery_script,
                                "Program, or command for the shell, that prints the available hosts, a line "
                                "'name:slots' each; run "
                                "again after FARANDOLE_DISCOVERY_INTERVAL (1 s). Makes the job elastic.")
                     ->type_name("FILE");
  auto* agents =
      app.add_option("--agents", into.agents,
                     "Waits for N agents that you start on the hosts (farandole agent); MIN:MAX in an "
                     "elastic job, whose hosts are those that come and go.")
          ->type_name("N|MIN:MAX");
  app.add_option("--agent-port", request.agent_port,
                 "Port on which the launcher waits for the agents of --agents; any free one if it is not "
                 "given.")
      ->type_name("INT")
      ->check(CLI::Range(1, 65535).description(""))
      ->needs(agents);
  app.add_option(
         "-p,--ssh-port", into.ssh_port,
         "Port of ssh on other hosts (default: that of ssh, 22 unless its configuration has another).")
      ->type_name("INT")
      ->check(CLI::Range(1, 65535).description(""));
  app.add_option("-i,--ssh-identity-file", request.ssh_identity_file,
                 "Key for ssh (default: those of its configuration).")
      ->type_name("FILE");
  hosts->excludes(file)->excludes(script);
  file->excludes(script);
  agents->excludes(hosts)->excludes(file)->excludes(script);
}

error find_hosts(const CLI::App& app, const host_options& options, run_request& request,
                 const surroundings& around) {
  for (const char* name : {"--hosts", "--hostfile", "--host-discovery-script"})
    if (app.count(name) > 0 && app.get_option(name)->results().back().empty())
      return wrong(std::string("the value of ") + name +
                   " is empty; name the hosts, as in -H localhost:4, or "
                   "leave the option out to use this host");
  if (!options.agents.empty())
    return {};
  if (!request.discovery_script.empty())
    return find_script(request.discovery_script);
  if (!options.hosts.empty() || !options.hostfile.empty())
    return read_hosts(options, request);
  return take_allocated_hosts(request, around);
}

error find_size(const CLI::App& app, const host_options& options, std::int32_t fewest_workers,
                run_request& request, const surroundings& around) {
  auto processes = options.processes;
  if (app.count("--num-proc") == 0) {
    const bool agents_decide = !options.agents.empty() && app.count("--min-num-proc") > 0;
    const bool hosts_decide =
        !request.hosts.empty() && find_batch_scheduler(around.environment) != batch_scheduler::none;
    if (agents_decide)
      processes = fewest_workers;
    else if (hosts_decide)
      processes = all_slots(request.hosts);
    else
      return wrong("the following arguments are required: -np/--num-proc");
  }
  if (processes < 1 || processes > most_slots)
    return wrong("-np " + std::to_string(processes) + " is out of range: 1 to " + std::to_string(most_slots));
  request.processes = processes;
  return {};
}

error check_hosts(const host_options& options, run_request& request) {
  if (!options.agents.empty())
    return find_agents(options.agents, request);
  if (!request.discovery_script.empty())
    return {};
  const bool by_user = !options.hosts.empty() || !options.hostfile.empty();
  if (by_user || !request.hosts.empty()) {
    auto places = place(request.hosts, request.processes);
    return places ? error{} : places.error();
  }
  if (request.elastic && !request.session)
    return wrong(
        "an elastic job needs to know its hosts: -H localhost:" + std::to_string(request.scheduler.limit) +
        ", --hostfile, --host-discovery-script, or --agents");
  request.hosts = {{"localhost", request.session ? request.scheduler.limit : request.processes}};
  return {};
}

void warn_of_unused_host_options(const CLI::App& app, const host_options& options, const run_request& request,
                                 const surroundings& around, std::vector<std::string>& warnings) {
  if (request.mode != launch_mode::agents)
    return; // mpirun gets the options of ssh
  const auto warn = [&](const std::string& name, const std::string& reason) {
    warnings.push_back("WARNING: " + name + " has no effect: " + reason);
  };
  const auto reason =
      options.agents.empty() ? reason_without_ssh(request, around) : "with --agents, you start the agents";
  for (const char* name : {"--ssh-port", "--ssh-identity-file"})
    if (app.count(name) > 0 && !reason.empty())
      warn(name, reason);
  if (!options.agents.empty() && app.count("--remote-hosts") > 0)
    warn("--remote-hosts", reason);
  if (!options.agents.empty() || !request.discovery_script.empty())
    return; // the hosts are not known yet
  for (const auto& name : request.remote_hosts)
    if (std::ranges::find(request.hosts, name, &host_slots::name) == request.hosts.end())
      warn("--remote-hosts " + name, "the job has no host of this name");
}

} // namespace farandole
