#include "elastic/scheduler_hosts.hpp"

#include <optional>
#include <unordered_map>
#include <utility>

#include "elastic/foreign_launch.hpp"
#include "elastic/node_list.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

/// A variable with a value that is not empty.
struct set_variable {
  std::string name;
  std::string value;
};

std::optional<set_variable> variable(const environment_lookup& environment, const std::string& name) {
  auto value = environment(name);
  if (!value || value->empty())
    return std::nullopt;
  return set_variable{name, std::move(*value)};
}

bool is_set(const environment_lookup& environment, const std::string& name) {
  return variable(environment, name).has_value();
}

std::string shown(std::string_view value) {
  constexpr std::size_t longest_quote = 120;
  return printable_name(value.substr(0, longest_quote)) + (value.size() > longest_quote ? "…" : "");
}

error wrong(const set_variable& source, const std::string& problem) {
  return {error_kind::invalid_argument,
          source.name + "='" + shown(source.value) + "' cannot be used: " + problem +
              "; start the command in a shell or script that the scheduler itself started, or name the hosts "
              "with -H name:slots"};
}

/// `absence` says which variables are not set.
error missing(batch_scheduler scheduler, const std::string& absence) {
  return {error_kind::invalid_argument, "this process runs in a job of " + std::string(to_string(scheduler)) +
                                            ", but " + absence +
                                            ", so its hosts or their slots are unknown; start the command in "
                                            "a shell or script that the scheduler "
                                            "itself started, or name the hosts with -H name:slots"};
}

/// Collects slots by host, in the order in which hosts are first named.
class slot_collection {
public:
  explicit slot_collection(set_variable source) : source_(std::move(source)) {}

  error add(const std::string& name, std::int32_t slots) {
    if (slots > most_slots - total_)
      return wrong(source_, "it gives more than " + std::to_string(most_slots) + " slots altogether");
    total_ += slots;
    const auto [entry, is_new] = positions_.emplace(name, hosts_.size());
    if (is_new)
      hosts_.push_back({name, slots});
    else
      hosts_[entry->second].slots += slots;
    return {};
  }

  expected<std::vector<host_slots>> hosts() && {
    if (hosts_.empty())
      return wrong(source_, "it names no host");
    return std::move(hosts_);
  }

private:
  set_variable source_;
  std::vector<host_slots> hosts_;
  std::unordered_map<std::string, std::size_t> positions_;
  std::int32_t total_ = 0;
};

/// A number of 1 or more.
expected<std::int32_t> positive_number(const set_variable& source) {
  const auto number = parse_slots(trimmed(source.value));
  if (!number || *number < 1)
    return wrong(source, "it is no number from 1 to " + std::to_string(most_slots));
  return *number;
}

expected<std::vector<std::int32_t>> slots_by_task_count(const set_variable& tasks, std::size_t hosts) {
  const auto count = positive_number(tasks);
  if (!count)
    return count.error();
  const auto number = static_cast<std::size_t>(*count);
  if (number < hosts)
    return wrong(tasks,
                 "these are fewer tasks than the " + std::to_string(hosts) + " hosts of SLURM_JOB_NODELIST");
  std::vector<std::int32_t> slots(hosts, static_cast<std::int32_t>(number / hosts));
  for (std::size_t host = 0; host < number % hosts; ++host)
    ++slots[host];
  return slots;
}

/// The slots of each host of SLURM_JOB_NODELIST.
expected<std::vector<std::int32_t>> slurm_slots(const environment_lookup& environment, std::size_t hosts) {
  if (const auto by_host = variable(environment, "SLURM_TASKS_PER_NODE")) {
    auto slots = expand_node_counts(by_host->value);
    if (!slots)
      return wrong(*by_host, slots.error().text);
    if (slots->size() != hosts)
      return wrong(*by_host, "it describes " + std::to_string(slots->size()) +
                                 " hosts, but SLURM_JOB_NODELIST names " + std::to_string(hosts));
    return slots;
  }
  if (const auto tasks = variable(environment, "SLURM_NTASKS"))
    return slots_by_task_count(*tasks, hosts);
  if (const auto cores = variable(environment, "SLURM_CPUS_ON_NODE")) {
    const auto slots = positive_number(*cores);
    if (!slots)
      return slots.error();
    return std::vector<std::int32_t>(hosts, *slots);
  }
  return missing(batch_scheduler::slurm,
                 "none of SLURM_TASKS_PER_NODE, SLURM_NTASKS and SLURM_CPUS_ON_NODE is set");
}

expected<std::vector<host_slots>> slurm_hosts(const environment_lookup& environment) {
  const auto list = variable(environment, "SLURM_JOB_NODELIST");
  if (!list)
    return missing(batch_scheduler::slurm, "SLURM_JOB_NODELIST is not set");
  const auto names = expand_node_list(list->value);
  if (!names)
    return wrong(*list, names.error().text);
  const auto slots = slurm_slots(environment, names->size());
  if (!slots)
    return slots.error();
  slot_collection collection(*list);
  for (std::size_t host = 0; host < names->size(); ++host)
    if (auto problem = collection.add((*names)[host], (*slots)[host]))
      return problem;
  return std::move(collection).hosts();
}

/// Reads a file with a line for each slot.
expected<std::vector<host_slots>> hosts_in_file(const set_variable& source, const file_reader& read_file) {
  const auto content = read_file(source.value);
  if (!content)
    return wrong(source, content.error().text);
  slot_collection collection(source);
  std::string_view rest = *content;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const auto end = rest.find('\n');
    const auto line = trimmed(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.empty())
      continue;
    if (!is_host_name(line) || line.size() > longest_host_name)
      return wrong(source, "line " + std::to_string(number) + " of the file, '" +
                               printable_name(line.substr(0, longest_host_name)) + "', is no host name");
    if (auto problem = collection.add(std::string(line), 1))
      return problem;
  }
  return std::move(collection).hosts();
}

/// Parses "h1 4 h2 4".
expected<std::vector<host_slots>> hosts_and_counts(const set_variable& source) {
  slot_collection collection(source);
  std::string_view rest = source.value;
  const auto next_word = [&rest] {
    rest = trimmed(rest);
    const auto word = rest.substr(0, rest.find_first_of(" \t"));
    rest.remove_prefix(word.size());
    return word;
  };
  for (auto name = next_word(); !name.empty(); name = next_word()) {
    const auto slots = parse_slots(next_word());
    if (!is_host_name(name) || name.size() > longest_host_name || !slots || *slots < 1)
      return wrong(source,
                   "it must hold a host name and its number of slots in turn, as in 'h1 4 h2 4', but '" +
                       printable_name(name.substr(0, longest_host_name)) +
                       "' is no host name, or no number from 1 to " + std::to_string(most_slots) +
                       " follows it");
    if (auto problem = collection.add(std::string(name), *slots))
      return problem;
  }
  return std::move(collection).hosts();
}

expected<std::vector<host_slots>> lsf_hosts(const environment_lookup& environment,
                                            const file_reader& read_file) {
  if (const auto file = variable(environment, "LSB_DJOB_HOSTFILE"))
    return hosts_in_file(*file, read_file);
  if (const auto list = variable(environment, "LSB_MCPU_HOSTS"))
    return hosts_and_counts(*list);
  return missing(batch_scheduler::lsf, "neither LSB_DJOB_HOSTFILE nor LSB_MCPU_HOSTS is set");
}

expected<std::vector<host_slots>> pbs_hosts(const environment_lookup& environment,
                                            const file_reader& read_file) {
  if (const auto file = variable(environment, "PBS_NODEFILE"))
    return hosts_in_file(*file, read_file);
  return missing(batch_scheduler::pbs, "PBS_NODEFILE is not set");
}

} // namespace

std::string_view to_string(batch_scheduler scheduler) {
  switch (scheduler) {
  case batch_scheduler::slurm:
    return "Slurm";
  case batch_scheduler::lsf:
    return "LSF";
  case batch_scheduler::pbs:
    return "PBS";
  case batch_scheduler::none:
    break;
  }
  return "none";
}

batch_scheduler find_batch_scheduler(const environment_lookup& environment) {
  if ((is_set(environment, "SLURM_JOB_ID") || is_set(environment, "SLURM_JOB_NODELIST")) &&
      !is_slurm_task(environment))
    return batch_scheduler::slurm;
  if (is_set(environment, "LSB_JOBID"))
    return batch_scheduler::lsf;
  if (is_set(environment, "PBS_JOBID") || is_set(environment, "PBS_NODEFILE"))
    return batch_scheduler::pbs;
  return batch_scheduler::none;
}

expected<scheduler_hosts> find_scheduler_hosts(const environment_lookup& environment,
                                               const file_reader& read_file) {
  scheduler_hosts found{find_batch_scheduler(environment), {}, {}};
  if (found.scheduler == batch_scheduler::none)
    return found;
  if (found.scheduler == batch_scheduler::lsf) {
    if (const auto allocation = variable(environment, "CSM_ALLOCATION_ID")) {
      found.csm_allocation = allocation->value;
      return found;
    }
  }
  auto hosts = found.scheduler == batch_scheduler::slurm ? slurm_hosts(environment)
               : found.scheduler == batch_scheduler::lsf ? lsf_hosts(environment, read_file)
                                                         : pbs_hosts(environment, read_file);
  if (!hosts)
    return hosts.error();
  found.hosts = std::move(*hosts);
  return found;
}

} // namespace farandole
