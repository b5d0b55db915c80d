#include "tools/farandole/run.hpp"

#include <fcntl.h>
#include <net/if.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>

#include "actors/launch/launcher.hpp"
#include "actors/launch/program.hpp"
#include "actors/rendezvous/job_secret.hpp"
#include "actors/rendezvous/this_host.hpp"
#include "collectives/transport/connections/interface_addresses.hpp"
#include "messages/values/printable.hpp"
#include "tools/farandole/cli/job_record.hpp"
#include "tools/farandole/worker_environment.hpp"
#include "tools/farandole/worker_threads.hpp"

namespace farandole {

namespace {

constexpr const char* rendezvous_ip = "127.0.0.1";

error wrong(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

/// Puts the secret into a sealed memory file, which every worker inherits and no process can change. The workers
/// share its file offset, so they must read it with pread.
expected<descriptor> keep_secret(const std::string& secret) {
  descriptor file{::memfd_create("farandole-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!file || ::write(file.get(), secret.data(), secret.size()) != static_cast<ssize_t>(secret.size()) ||
      ::lseek(file.get(), 0, SEEK_SET) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
    return error{error_kind::unknown,
                 std::string("the job's secret cannot be kept: ") + std::strerror(errno)};
  return file;
}

/// Names of the interfaces that have the address 127.0.0.1.
std::vector<std::string> loopback_interfaces() {
  std::vector<std::string> names;
  if (const auto addresses = list_interface_addresses())
    for (const auto& address : *addresses)
      if (address.address == "127.0.0.1")
        names.push_back(address.interface);
  return names;
}

/// The reason why a host cannot be used; empty if it can. Calls the resolver, so it may block.
std::string objection_to(const std::string& host) {
  if (is_this_host(host))
    return {};
  return "host '" + printable_name(host) +
         "' is not this machine, and jobs on other hosts need the launch by ssh, not " +
         "offered yet; use -H localhost:N";
}

error check_hosts(const run_request& request) {
  if (request.verbose)
    std::cout << "Filtering local host names." << std::endl;
  for (const auto& host : request.hosts) {
    const auto problem = objection_to(host.name);
    if (problem.empty())
      continue;
    if (request.verbose)
      std::cout << "Remote host found: " << printable_name(host.name) << std::endl;
    return wrong(problem);
  }
  return {};
}

expected<std::vector<std::string>> interfaces_for(const run_request& request) {
  if (!request.interfaces.empty()) {
    for (const auto& name : request.interfaces)
      if (::if_nametoindex(name.c_str()) == 0)
        return wrong("there is no network interface '" + name + "' (--network-interfaces)");
    return request.interfaces;
  }
  if (request.verbose)
    std::cout << "All hosts are local, finding the interfaces with address 127.0.0.1" << std::endl;
  auto names = loopback_interfaces();
  if (names.empty())
    return wrong(
        "no network interface carries 127.0.0.1; bring lo up, or name one with --network-interfaces");
  if (request.verbose) {
    std::cout << "Local interface found";
    for (const auto& name : names)
      std::cout << " " << name;
    std::cout << std::endl;
  }
  return names;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry; ++entry)
    entries.emplace_back(*entry);
  return entries;
}

/// The folder of a rank's output: "rank.007" if the largest rank has three digits.
std::string rank_folder(const std::string& folder, std::int32_t rank, std::int32_t size) {
  std::string number = std::to_string(rank);
  const auto width = std::to_string(size - 1).size(); // ranks of workers that join later may be longer
  if (number.size() < width)
    number.insert(0, width - number.size(), '0');
  return folder + "/rank." + number;
}

expected<slot_spec> slot_for(const placement& place, const run_request& request, const job_facts& job,
                             std::span<const std::string> inherited, std::int32_t limit, launcher& by) {
  slot_spec slot;
  slot.slot = place.rank;
  slot.label = std::to_string(place.rank);
  slot.host = place.host;
  slot.timestamp = request.prefix_timestamp;
  slot.process.arguments = request.command;
  slot.process.environment = worker_environment(inherited, place, job, request.values);
  slot.process.inherited = {job.secret_descriptor};
  if (!request.output_folder.empty())
    if (auto problem = by.copy_output(slot, rank_folder(request.output_folder, place.rank, limit)))
      return problem;
  return slot;
}

expected<int> run_fixed(const run_request& request, const std::vector<placement>& places,
                        const job_facts& job, launcher& by) {
  const auto inherited = own_environment();
  std::vector<slot_spec> slots;
  for (const auto& place : places) {
    auto slot = slot_for(place, request, job, inherited, job.size, by);
    if (!slot)
      return slot.error();
    slots.push_back(std::move(*slot));
  }
  return by.run(std::move(slots));
}

/// A worker of an elastic job learns its rank and the sizes in each generation. It starts with only its slot
/// number, its host and its position on the host.
expected<int> run_elastic(const run_request& request, const job_facts& job, launcher& by) {
  const auto inherited = own_environment();
  elastic_job elastic_job;
  elastic_job.scheduler = request.scheduler;
  elastic_job.hosts = request.hosts;
  elastic_job.script = request.discovery_script;
  elastic_job.slots_per_host = request.slots_per_host;
  elastic_job.objection = objection_to;
  elastic_job.slot_for = [&](const worker_scheduler::start& start) {
    const placement place{start.slot, start.host, start.local, start.local + 1, 0, 1};
    return slot_for(place, request, job, inherited, request.scheduler.limit, by);
  };
  return by.run(elastic_job);
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
std::optional<job_file> tell_of(const run_request& request, const job_facts& job, const std::string& secret) {
  job_record record;
  record.launcher = ::getpid();
  record.name = job_name(request.command, record.launcher);
  record.elastic = request.elastic;
  for (const auto& word : request.command)
    record.command += (record.command.empty() ? "" : " ") + word;
  if (record.elastic) {
    record.ip = job.rendezvous_address;
    record.port = job.rendezvous_port;
    record.secret = secret;
  }
  auto file = job_file::write(job_folders(), record);
  if (file)
    return std::move(*file);
  if (request.elastic)
    std::cerr << "farandole: WARNING: farandole drain will not find this job: " << file.error().text
              << std::endl;
  return {};
}

expected<int> try_run(const run_request& request) {
  if (auto problem = check_hosts(request))
    return problem;
  auto interfaces = interfaces_for(request);
  if (!interfaces)
    return interfaces.error();
  const bool apart = !request.rendezvous_ip.empty();
  const auto secret = apart ? job_secret(request.values) : make_secret();
  if (!secret)
    return secret.error();
  const auto kept = keep_secret(*secret);
  if (!kept)
    return kept.error();
  launcher_options options;
  options.members = {request.processes};
  std::vector<placement> places; // empty for an elastic job, whose workers are placed while it runs
  if (!request.elastic) {
    auto found = place(request.hosts, request.processes, machine_of_host);
    if (!found)
      return found.error();
    places = std::move(*found);
    for (const auto& placement : places)
      options.hosts.emplace(placement.rank, placement.host);
  }
  if (request.elastic)
    options.members = {request.processes, true, request.scheduler.fewest, request.scheduler.limit};
  options.values = request.values;
  options.secret = *secret;
  options.bind_ip = rendezvous_ip;
  options.journal = request.journal;
  if (apart) {
    auto ip = resolve(request.rendezvous_ip);
    if (!ip)
      return ip.error();
    options.remote_ip = *ip;
    options.port = request.rendezvous_port;
  }
  auto started = launcher::open(options);
  if (!started)
    return started.error();
  job_facts job;
  job.size = request.processes;
  job.rendezvous_address = apart ? options.remote_ip : rendezvous_ip;
  job.rendezvous_port = (*started)->port();
  job.secret_descriptor = kept->get();
  job.interfaces = std::move(*interfaces);
  job.limit = request.elastic ? request.scheduler.limit : 0;
  if (request.elastic)
    job.reset_limit = request.scheduler.reset_limit;
  job.tcp_only = request.tcp_only;
  job.launcher = request.elastic ? ::getpid() : 0;
  job.cores = whole_usable_cores();
  if (request.verbose)
    std::cout << "Launching " << request.processes << " processes; the rendezvous listens on "
              << job.rendezvous_address << ":" << job.rendezvous_port << std::endl;
  (*started)->log().info("a job of " + std::to_string(request.processes) +
                         (request.processes == 1 ? " process on " : " processes on ") + hosts_text(request) +
                         "; the rendezvous is at " + job.rendezvous_address + ":" +
                         std::to_string(job.rendezvous_port));
  const auto told = tell_of(request, job, *secret);
  return request.elastic ? run_elastic(request, job, **started) : run_fixed(request, places, job, **started);
}

} // namespace

int run_job(const run_request& request) {
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
  const auto code = try_run(request);
  if (code)
    return *code;
  std::cerr << "farandole: " << printable(code.error().text) << std::endl;
  return 2;
}

} // namespace farandole
