#include "tools/farandole/csm_query.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>
#include <utility>

#include "elastic/node_list.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

constexpr std::string_view allocation_query = "csm_allocation_query";
constexpr std::string_view host_query = "csm_node_attributes_query";
/// Far above every real machine, so that no product overflows.
constexpr std::int32_t most_cores = 1 << 14;

error wrong(std::string_view command, const std::string& problem) {
  return {error_kind::invalid_argument,
          "the output of " + std::string(command) + " cannot be used: " + problem};
}

error with_remedy(const error& problem, std::string_view remedy) {
  return {problem.kind, problem.text + "; " + std::string(remedy)};
}

/// The output of a command as a map. yaml-cpp reports errors by exceptions.
expected<YAML::Node> parse_map(std::string_view command, const std::string& printed) {
  try {
    auto root = YAML::Load(printed);
    if (root.IsMap())
      return root;
  } catch (const YAML::Exception& problem) {
    return wrong(command, printable_name(problem.what()));
  }
  return wrong(command, "it holds no 'key: value' lines");
}

expected<std::int32_t> parse_number(std::string_view command, const YAML::Node& map, const std::string& key) {
  const auto node = map[key];
  if (!node || !node.IsScalar())
    return wrong(command, "it has no number " + key);
  const auto number = parse_slots(node.Scalar());
  if (!number || *number > most_cores)
    return wrong(command, key + " is '" + printable_name(node.Scalar().substr(0, 60)) +
                              "', no number from 0 to " + std::to_string(most_cores));
  return *number;
}

} // namespace

expected<csm_allocation> parse_csm_allocation(const std::string& printed) {
  const auto root = parse_map(allocation_query, printed);
  if (!root)
    return root.error();
  const YAML::Node& map = *root;
  const auto isolated = parse_number(allocation_query, map, "isolated_cores");
  if (!isolated)
    return isolated.error();
  const auto list = map["compute_nodes"];
  if (!list || !list.IsSequence() || list.size() == 0)
    return wrong(allocation_query, "it has no list compute_nodes");
  csm_allocation allocation{{}, *isolated};
  std::set<std::string> names;
  for (const auto& entry : list) {
    const auto name = entry.IsScalar() ? entry.Scalar() : std::string();
    if (!is_host_name(name) || name.size() > longest_host_name)
      return wrong(allocation_query, "in compute_nodes, '" +
                                         printable_name(name.substr(0, longest_host_name)) +
                                         "' is no host name");
    if (names.insert(name).second)
      allocation.compute_hosts.push_back(name);
  }
  return allocation;
}

expected<csm_host> parse_csm_host(const std::string& printed) {
  const auto root = parse_map(host_query, printed);
  if (!root)
    return root.error();
  const YAML::Node& map = *root;
  const auto record = map["Record_1"];
  if (!record || !record.IsMap())
    return wrong(host_query, "it has no map Record_1");
  csm_host host;
  for (const auto& [key, field] :
       {std::pair("discovered_cores", &csm_host::cores), std::pair("discovered_sockets", &csm_host::sockets),
        std::pair("discovered_gpus", &csm_host::gpus)}) {
    const auto number = parse_number(host_query, record, key);
    if (!number)
      return number.error();
    host.*field = *number;
  }
  return host;
}

expected<std::int32_t> parse_threads_per_core(std::string_view printed) {
  constexpr std::string_view key = "Thread(s) per core:";
  const auto at = printed.find(key);
  if (at == std::string_view::npos)
    return wrong("lscpu", "it has no line 'Thread(s) per core'");
  const auto rest = printed.substr(at + key.size());
  const auto text = trimmed(rest.substr(0, rest.find('\n')));
  const auto threads = parse_slots(text);
  if (!threads || *threads < 1 || *threads > most_cores)
    return wrong("lscpu", "'Thread(s) per core' is '" + printable_name(text.substr(0, 60)) +
                              "', no number from 1 to " + std::to_string(most_cores));
  return *threads;
}

expected<std::vector<host_slots>> csm_host_slots(const csm_allocation& allocation, const csm_host& host) {
  if (host.gpus < 1)
    return wrong(host_query, "discovered_gpus is 0, so the hosts have no slots");
  const auto most = static_cast<std::size_t>(most_slots / host.gpus);
  if (allocation.compute_hosts.size() > most)
    return wrong(allocation_query, std::to_string(allocation.compute_hosts.size()) + " hosts with " +
                                       std::to_string(host.gpus) + " GPUs each are more than " +
                                       std::to_string(most_slots) + " slots");
  std::vector<host_slots> hosts;
  for (const auto& name : allocation.compute_hosts)
    hosts.push_back({name, host.gpus});
  return hosts;
}

expected<std::int32_t> csm_cpus_per_host(const csm_allocation& allocation, const csm_host& host,
                                         std::int32_t threads_per_core) {
  const auto isolated = std::int64_t{allocation.isolated_cores} * host.sockets;
  if (isolated >= host.cores)
    return wrong(host_query, "discovered_cores is " + std::to_string(host.cores) + ", but the system keeps " +
                                 std::to_string(isolated) + " (isolated_cores of each socket)");
  return static_cast<std::int32_t>((host.cores - isolated) * threads_per_core);
}

namespace {

struct csm_answers {
  csm_allocation allocation;
  csm_host host; ///< the first compute host
};

expected<csm_answers> query(const std::string& number, const output_reader& output_of) {
  const auto listed = output_of({std::string(allocation_query), "-a", number});
  if (!listed)
    return listed.error();
  auto allocation = parse_csm_allocation(*listed);
  if (!allocation)
    return allocation.error();
  const auto described = output_of({std::string(host_query), "-n", allocation->compute_hosts.front()});
  if (!described)
    return described.error();
  const auto host = parse_csm_host(*described);
  if (!host)
    return host.error();
  return csm_answers{std::move(*allocation), *host};
}

} // namespace

std::vector<std::string> with_csm_folder(std::vector<std::string> environment) {
  constexpr const char* folder = "/opt/ibm/csm/bin";
  for (auto& entry : environment)
    if (entry.starts_with("PATH=")) {
      entry += std::string(":") + folder;
      return environment;
    }
  environment.push_back(std::string("PATH=") + folder);
  return environment;
}

expected<std::vector<host_slots>> query_csm_hosts(const std::string& allocation,
                                                  const output_reader& output_of) {
  const auto answers = query(allocation, output_of);
  auto hosts = answers ? csm_host_slots(answers->allocation, answers->host) : answers.error();
  return hosts ? std::move(hosts)
               : with_remedy(hosts.error(), "name the hosts with -H name:slots and the processes with -np");
}

expected<std::int32_t> query_csm_cpus(
    const std::string& allocation, const output_reader& output_of,
    const std::function<std::vector<std::string>(const std::string& host, std::string line)>& on_host) {
  const auto cpus = [&]() -> expected<std::int32_t> {
    const auto answers = query(allocation, output_of);
    if (!answers)
      return answers.error();
    const auto printed = output_of(on_host(answers->allocation.compute_hosts.front(), "lscpu"));
    if (!printed)
      return printed.error();
    const auto threads = parse_threads_per_core(*printed);
    return threads ? csm_cpus_per_host(answers->allocation, answers->host, *threads) : threads.error();
  }();
  return cpus ? cpus
              : with_remedy(cpus.error(),
                            "give jsrun's own options with --binding-args, or launch without it (--gloo)");
}

} // namespace farandole
