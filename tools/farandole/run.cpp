#include "tools/farandole/run.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <set>

#include "actors/launch/launcher.hpp"
#include "actors/launch/program.hpp"
#include "actors/rendezvous/job_secret.hpp"
#include "actors/rendezvous/this_host.hpp"
#include "elastic/network_choice.hpp"
#include "messages/values/printable.hpp"
#include "tools/farandole/cli/endpoint.hpp"
#include "tools/farandole/cli/job_record.hpp"
#include "tools/farandole/explain.hpp"
#include "tools/farandole/job_network.hpp"
#include "tools/farandole/job_placer.hpp"
#include "tools/farandole/mpi_launch.hpp"
#include "tools/farandole/network_checks.hpp"
#include "tools/farandole/worker_environment.hpp"
#include "tools/farandole/worker_threads.hpp"

namespace farandole {

namespace {

/// Names the descriptor of a worker's channel to the program that has called the launcher.
constexpr const char* call_variable = "FARANDOLE_CALL_DESCRIPTOR";

/// The hosts that are other machines, on which agents start the workers. Calls the resolver, so it may block.
std::set<std::string> remote_hosts(const run_request& request) {
  if (request.verbose)
    std::cout << "Filtering local host names." << std::endl;
  std::set<std::string> names;
  if (!request.caller_address.empty())
    return names; // the caller reaches them
  for (const auto& host : request.hosts)
    if (request.remote_hosts.contains(host.name) || !is_this_host(host.name)) {
      names.insert(host.name);
      if (request.verbose)
        std::cout << "Remote host found: " << printable_name(host.name) << std::endl;
    }
  return names;
}

/// The greatest number of workers, or a guess if a session may have any number.
std::int32_t expected_workers(const run_request& request) {
  const auto limit = request.scheduler.limit;
  return !request.elastic || (request.session && limit == most_slots) ? request.processes : limit;
}

std::string working_directory() {
  std::error_code problem;
  const auto path = std::filesystem::current_path(problem);
  return problem ? std::string() : path.string();
}

/// The folder of a rank's output: "rank.007" if the largest rank has three digits.
std::string rank_folder(const std::string& folder, std::int32_t rank, std::int32_t size) {
  std::string number = std::to_string(rank);
  const auto width = std::to_string(size - 1).size(); // ranks of workers that join later may be longer
  if (number.size() < width)
    number.insert(0, width - number.size(), '0');
  return folder + "/rank." + number;
}

/// The facts about the job as the workers of one host need them. `agent` is null on this machine.
expected<job_facts> facts_on(const agent_hello* agent, const job_facts& all, const job_network& network) {
  auto facts = all;
  auto place = agent ? network.on(*agent) : expected<worker_network>(network.here());
  if (!place)
    return place.error();
  facts.rendezvous_address =
      all.rendezvous_address.empty() ? place->rendezvous_address : all.rendezvous_address;
  facts.interfaces = std::move(place->interfaces);
  facts.own_address = std::move(place->own_address);
  if (agent) {
    facts.secret_descriptor = -1;
    facts.cores = agent->cores;
  }
  return facts;
}

/// The job as it is started: what its slots are made from.
struct running_job {
  const run_request& request;
  job_facts facts; ///< with an empty address of the rendezvous if this launcher runs it
  job_network network;
  std::int32_t limit; ///< greatest number of workers
  launcher& by;
  std::vector<std::string> environment; ///< of this launcher
  std::string placer_name;              ///< of the agents; empty: users start them, or there are none
};

expected<slot_spec> slot_for(const placement& place, const running_job& job, const agent_hello* agent) {
  const auto& request = job.request;
  slot_spec slot;
  slot.slot = place.rank;
  slot.label = std::to_string(place.rank);
  slot.host = place.host;
  slot.timestamp = request.prefix_timestamp;
  slot.process.arguments = request.command;
  slot.process.keeps_input = place.rank == request.input_rank;
  if (request.call_descriptor >= 0)
    slot.process.channel_variable = call_variable;
  const auto facts = facts_on(agent, job.facts, job.network);
  if (!facts)
    return facts.error();
  const auto& apart = job.facts.rendezvous_address;
  if (agent && is_loopback(apart) && agent->machine != host_identity(request.values))
    return error{error_kind::invalid_argument,
                 "the workers on " + printable_name(place.host) + " cannot reach the rendezvous at " + apart +
                     ", which is an address of this machine alone; start it with --bind and an address that "
                     "they reach, and name that with --rendezvous"};
  slot.process.environment = worker_environment(
      agent ? forwarded_variables(job.environment) : job.environment, place, *facts, request.values);
  // The names of agents that mpirun has started are no names of hosts.
  if (request.mode != launch_mode::agents)
    std::erase_if(slot.process.environment,
                  [name = std::string(row_of(setting::host_name).environment) +
                          "="](const std::string& entry) { return entry.starts_with(name); });
  if (agent) {
    slot.agent = place.host;
    // A program that starts agents itself, in the containers of a cluster, has other directories than they have.
    if (request.fewest_agents == 0 || request.call_descriptor < 0)
      slot.process.directory = working_directory();
  } else {
    slot.process.inherited = {job.facts.secret_descriptor};
  }
  if (!request.output_folder.empty())
    if (auto problem = job.by.copy_output(slot, rank_folder(request.output_folder, place.rank, job.limit)))
      return problem;
  return slot;
}

/// The agents of the job's hosts, of which `remote` are other machines. Prints why if there are none and returns the
/// exit code of the launcher.
std::optional<agent_facts> gather(const running_job& job, const std::set<std::string>& remote,
                                  int& exit_code) {
  const bool tells_of_ssh = job.request.verbose && job.placer_name == "ssh";
  if (job.request.verbose)
    std::cout << "Launched horovod server.\n"
              << (tells_of_ssh ? "Checking ssh on all remote hosts.\n" : "")
              << "Waiting for the hosts to acknowledge." << std::endl;
  auto agents = job.by.gather_agents({remote.begin(), remote.end()},
                                     static_cast<std::size_t>(job.request.fewest_agents), exit_code);
  if (agents && job.request.verbose)
    std::cout << (job.placer_name.empty() ? "" : "Attempted to launch horovod task servers.\n")
              << (tells_of_ssh ? "SSH was successful into all the remote hosts.\n" : "")
              << "Notified all the hosts that the registration is complete." << std::endl;
  return agents;
}

/// The hosts of a job whose users start the agents, by name.
std::vector<host_slots> hosts_of(const agent_facts& agents) {
  std::vector<host_slots> hosts;
  for (const auto& [name, facts] : agents)
    hosts.push_back({name, facts.slots > 0 ? facts.slots : facts.cores});
  return hosts;
}

expected<int> run_fixed(running_job job, const std::set<std::string>& remote) {
  const auto& request = job.request;
  agent_facts agents;
  auto hosts = request.hosts;
  if (!remote.empty() || request.fewest_agents > 0) {
    int code = 0;
    auto found = gather(job, remote, code);
    if (!found)
      return code;
    agents = std::move(*found);
    if (request.fewest_agents > 0)
      hosts = hosts_of(agents);
    if (const auto problem = job.network.take(agents))
      return tell_missing_networks(problem);
  }
  const auto own_machine = host_identity(request.values);
  const auto machine_of = [&](const std::string& host) {
    if (!request.caller_address.empty() && request.fewest_agents == 0 && request.mode == launch_mode::agents)
      return host; // only the caller knows the machines
    const auto found = agents.find(host);
    return found == agents.end() ? own_machine : found->second.machine;
  };
  auto places = place(hosts, request.processes, machine_of);
  if (!places)
    return places.error();
  // A program that starts agents itself may start several on a host on purpose.
  if (request.mode == launch_mode::agents && (request.fewest_agents == 0 || request.call_descriptor < 0))
    for (const auto& text : machines_with_two_names(hosts, machine_of))
      std::cerr << "farandole: NOTICE: " << text << std::endl;
  if (!agents.empty()) {
    if (const auto code = test_networks(job.by, job.network, *places, agents, request.verbose))
      return *code;
    if (request.verbose)
      tell_interfaces(job.network, hosts, agents);
  }
  std::map<std::int32_t, std::string> names;
  std::vector<slot_spec> slots;
  for (const auto& place : *places) {
    names.emplace(place.rank, host_name_of(place.host));
    const auto agent = agents.find(place.host);
    auto slot = slot_for(place, job, agent == agents.end() ? nullptr : &agent->second);
    if (!slot)
      return slot.error();
    slots.push_back(std::move(*slot));
  }
  job.by.expect_slots(names);
  return job.by.run(std::move(slots));
}

/// A worker of an elastic job learns its rank and the sizes in each generation. It starts with only its slot
/// number, its host and its position on the host.
expected<int> run_elastic(const running_job& job, const std::set<std::string>& remote) {
  const auto& request = job.request;
  elastic_job elastic_job;
  elastic_job.scheduler = request.scheduler;
  if (request.session) { // the caller changes the number
    elastic_job.scheduler.limit = request.processes;
    elastic_job.most_workers = request.scheduler.limit;
  }
  elastic_job.hosts = {request.hosts, {}, remote};
  elastic_job.script = request.discovery_script;
  elastic_job.slots_per_host = request.slots_per_host;
  elastic_job.is_remote = [placed = !request.caller_address.empty(),
                           remote_hosts = request.remote_hosts](const std::string& host) {
    return !placed && (remote_hosts.contains(host) || !is_this_host(host));
  };
  elastic_job.first_agents = static_cast<std::size_t>(request.fewest_agents);
  elastic_job.slot_for = [&](const worker_scheduler::start& start, const agent_hello* agent) {
    const placement place{start.slot, start.host, start.local, start.local + 1, 0, 1};
    return slot_for(place, job, agent);
  };
  return job.by.run(elastic_job);
}

/// The hosts for the log: "localhost:2, node:4", or the script that finds them.
std::string hosts_text(const run_request& request) {
  if (!request.discovery_script.empty())
    return "the hosts that " + request.discovery_script + " prints";
  std::string text;
  for (const auto& host : request.hosts)
    text += (text.empty() ? "" : ", ") + host.name + ":" + std::to_string(host.slots);
  return text;
}

/// Writes the record by which tools find the job. The job runs even if that fails.
std::optional<job_file> tell_of(const run_request& request, const job_facts& job, const std::string& ip,
                                const std::string& secret, const std::string& agent_ip,
                                std::uint16_t agent_port) {
  job_record record;
  record.launcher = ::getpid();
  record.name = job_name(request.command, record.launcher);
  record.elastic = request.elastic;
  for (const auto& word : request.command)
    record.command += (record.command.empty() ? "" : " ") + word;
  record.ip = ip;
  record.port = job.rendezvous_port;
  if (agent_port != 0) {
    record.agent_ip = agent_ip;
    record.agent_port = agent_port;
  }
  record.secret = secret;
  auto file = job_file::write(job_folders(), record);
  if (file)
    return std::move(*file);
  std::cerr << "farandole: WARNING: farandole explain, dump, drain and rsh will not find this job: "
            << file.error().text << std::endl;
  return {};
}

/// The secret of the job: a new one, unless other processes have a secret already. Agents that are started by a remote
/// shell without standard input read it from a file of their host, so a secret file is used with such a shell.
expected<std::string> secret_of(const run_request& request, bool by_remote_shell) {
  const bool has_file = !request.values.text(setting::secret_file).empty();
  const bool by_mpi = request.mode != launch_mode::agents;
  const bool is_given = !request.rendezvous_ip.empty() || request.fewest_agents > 0 ||
                        (!request.caller_address.empty() && !by_mpi) || (by_remote_shell && has_file);
  return is_given ? job_secret(request.values) : make_secret();
}

/// Tells the user, or the program that has called, how to start the agents that the job waits for.
void ask_for_agents(launcher& by, const run_request& request, const std::vector<std::string>& ips) {
  std::string addresses;
  for (const auto& ip : ips)
    addresses += (addresses.empty() ? "" : ",") + endpoint{ip, by.agent_port()}.text();
  const auto& secret_file = request.values.text(setting::secret_file);
  by.ask_for_agents(addresses, "farandole: waiting for " + std::to_string(request.fewest_agents) +
                                   (request.fewest_agents == 1 ? " agent" : " agents") +
                                   ": farandole agent --launcher " + addresses + " --secret-file " +
                                   (secret_file.empty() ? "FILE" : secret_file));
}

std::set<std::string> names_of(const std::vector<host_slots>& hosts) {
  std::set<std::string> names;
  for (const auto& host : hosts)
    names.insert(host.name);
  return names;
}

expected<int> try_run(const run_request& asked, const std::string& program) {
  auto request = asked;
  const bool by_users = request.fewest_agents > 0;
  const bool by_mpi = request.mode != launch_mode::agents;
  auto remote = remote_hosts(request);
  const auto remote_shell = remote_shell_of(request, program);
  if (!remote_shell)
    return remote_shell.error();
  // Hosts that a script prints may be other machines.
  const bool by_caller = !request.caller_address.empty();
  const bool leaves_host = !by_caller && (!remote.empty() || by_users || !request.discovery_script.empty());
  const bool has_workers = !by_users && remote.size() < request.hosts.size();
  auto network = by_caller ? job_network::at_address(request.caller_address, request.interfaces)
                 : leaves_host
                     ? job_network::of_hosts(request.interfaces, has_workers, host_identity(request.values))
                     : job_network::of_this_host(request.interfaces);
  // A script may print hosts of this machine alone, which need no network.
  if (!network && remote.empty() && leaves_host && !by_users)
    network = job_network::of_this_host(request.interfaces);
  if (!network && network.error().kind == error_kind::precondition)
    return tell_missing_networks(network.error());
  if (!network)
    return network.error();
  const auto& addresses = network->listening();
  placer chosen;
  if (by_mpi) {
    auto made = mpi_placer(request, *remote_shell, addresses);
    if (!made)
      return made.error();
    chosen = std::move(*made);
    request.hosts = hosts_of_ranks(request.processes);
    remote = names_of(request.hosts);
  } else if (leaves_host && !by_users) {
    chosen = placer_of(request, *remote_shell, addresses);
  }
  if (request.verbose && chosen)
    chosen = telling_placer(std::move(chosen));
  if (request.verbose && !leaves_host && !by_caller) {
    std::cout << "All hosts are local, finding the interfaces with address 127.0.0.1\nLocal interface found";
    for (const auto& name : network->here().interfaces)
      std::cout << " " << name;
    std::cout << std::endl;
  }
  const bool apart = !request.rendezvous_ip.empty();
  const auto secret = secret_of(request, leaves_host && !by_users && !remote_shell->remote_shell.empty());
  if (!secret)
    return secret.error();
  const auto kept = shared_secret(*secret);
  if (!kept)
    return kept.error();
  launcher_options options;
  options.members = {request.processes};
  if (request.elastic)
    options.members = {request.processes, true, request.scheduler.fewest, request.scheduler.limit,
                       request.session};
  options.values = request.values;
  options.secret = *secret;
  options.bind_ips = addresses;
  if (leaves_host || by_mpi || by_users) {
    options.agents.bind_ips = addresses;
    options.agents.port = request.agent_port;
    options.agents.most_others = static_cast<std::size_t>(request.most_agents);
    options.agents.place = chosen;
    options.agents.version = FARANDOLE_VERSION;
    options.agents.workers = static_cast<std::size_t>(expected_workers(request));
  }
  options.journal = request.journal;
  options.call_descriptor = request.call_descriptor;
  options.input_slot = request.input_rank;
  if (apart) {
    auto ip = resolve(request.rendezvous_ip);
    if (!ip)
      return ip.error();
    options.remote_ip = *ip;
    options.port = request.rendezvous_port;
  }
  options.explain = [name = job_name(request.command, ::getpid())](
                        const std::string& folder, const std::vector<std::int32_t>& ranks,
                        std::chrono::steady_clock::time_point deadline) {
    return explain_ranks(folder, ranks, deadline) + "What all ranks are doing: farandole explain " + name;
  };
  auto started = launcher::open(options);
  if (!started)
    return started.error();
  job_facts job;
  job.size = request.processes;
  job.rendezvous_address = options.remote_ip;
  job.rendezvous_port = (*started)->port();
  job.secret_descriptor = kept->get();
  job.limit = request.elastic ? expected_workers(request) : 0;
  if (request.elastic)
    job.reset_limit = request.scheduler.reset_limit;
  job.tcp_only = request.tcp_only;
  job.launcher = request.elastic ? ::getpid() : 0;
  job.cores = whole_usable_cores();
  const auto rendezvous = endpoint{apart ? options.remote_ip : addresses.front(), job.rendezvous_port}.text();
  if (request.verbose)
    std::cout << "Launching " << request.processes << " processes; the rendezvous listens on " << rendezvous
              << std::endl;
  (*started)->log().info("a job of " + std::to_string(request.processes) +
                         (request.processes == 1 ? " process on " : " processes on ") + hosts_text(request) +
                         "; the rendezvous is at " + rendezvous);
  const auto told = tell_of(request, job, apart ? options.remote_ip : addresses.front(), *secret,
                            addresses.front(), (*started)->agent_port());
  if (told)
    (*started)->remove_at_end(told->path());
  if (by_users)
    ask_for_agents(**started, request, addresses);
  running_job running{request,   std::move(job),    std::move(*network), expected_workers(request),
                      **started, own_environment(), chosen.name};
  return request.elastic ? run_elastic(running, remote) : run_fixed(std::move(running), remote);
}

/// Becomes mpirun or jsrun, or prints its command line.
expected<int> run_by_mpi(const run_request& request, const std::string& program) {
  if (request.rank_file_cpus > 0) {
    const auto path = write_rank_file_for_parent(request);
    if (!path)
      return path.error();
    std::cout << *path << std::endl;
    return 0;
  }
  const auto remote_shell = remote_shell_of(request, program);
  if (!remote_shell)
    return remote_shell.error();
  const auto launch = plan_mpi_launch(request, request.command, *remote_shell);
  if (!launch)
    return launch.error();
  if (request.print_command || request.verbose)
    std::cout << printed_line(*launch) << std::endl;
  return request.print_command ? 0 : become(*launch);
}

} // namespace

int run_job(const run_request& request, const std::string& program) {
  if (request.mode != launch_mode::agents && request.call_descriptor < 0) {
    const auto code = run_by_mpi(request, program);
    if (code)
      return *code;
    std::cerr << "farandole: " << printable(code.error().text) << std::endl;
    return 2;
  }
  // Checked here so that the error is reported once, not once for every rank.
  const char* path = std::getenv("PATH");
  if (const auto program = find_program(request.command.front(), path ? path : ""); !program) {
    std::cerr << "farandole: " << printable(program.error().text) << std::endl;
    return start_failure_code(program.error());
  }
  const bool limits_threads = request.values.flag(setting::omp_threads) || sets_threads(own_environment());
  if (const auto text = crowding_notice(whole_usable_cores(), request.processes, limits_threads);
      !text.empty())
    std::cerr << "farandole: NOTICE: " << text << std::endl;
  const auto code = try_run(request, program);
  if (code)
    return *code;
  std::cerr << "farandole: " << printable(code.error().text) << std::endl;
  return 2;
}

} // namespace farandole
