// Feeds arbitrary bytes as the variables of batch schedulers, and as the files that they name. Each must return
// hosts with unique names and a permitted number of slots, or an error on one line. The first byte selects the
// scheduler; the rest is its list of hosts, and, after a line break, its task counts.
#include <set>

#include "elastic/node_list.hpp"
#include "elastic/scheduler_hosts.hpp"
#include "tests/fuzz/choices.hpp"

using namespace farandole;

namespace {

void check(const scheduler_hosts& found) {
  std::set<std::string> names;
  std::int32_t slots = 0;
  require(found.scheduler != batch_scheduler::none && !found.hosts.empty());
  for (const auto& host : found.hosts) {
    require(is_host_name(host.name) && host.name.size() <= longest_host_name);
    require(host.slots >= 1 && host.slots <= most_slots - slots);
    require(names.insert(host.name).second);
    slots += host.slots;
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  choices input{{data, size}};
  const auto source = input.below(5);
  const auto text = text_of(input.rest());
  const auto line = text.find('\n');
  const std::string list(text.substr(0, line));
  const std::string counts(line == std::string_view::npos ? std::string_view{} : text.substr(line + 1));
  const auto environment = [&](std::string_view name) -> std::optional<std::string> {
    if (source < 2 && name == "SLURM_JOB_NODELIST")
      return list;
    if (source == 0 && name == "SLURM_TASKS_PER_NODE")
      return counts;
    if (source == 1 && (name == "SLURM_NTASKS" || name == "SLURM_JOB_ID"))
      return "65536";
    if ((source == 2 || source == 3) && name == "LSB_JOBID")
      return "1";
    if (source == 2 && name == "LSB_MCPU_HOSTS")
      return list;
    if ((source == 3 && name == "LSB_DJOB_HOSTFILE") || (source == 4 && name == "PBS_NODEFILE"))
      return "/file";
    return source == 4 && name == "PBS_JOBID" ? std::optional<std::string>("1") : std::nullopt;
  };
  const auto found =
      find_scheduler_hosts(environment, [&](const std::string&) { return expected(std::string(text)); });
  if (found && found->scheduler == batch_scheduler::none)
    return require(source == 0 && list.empty() && found->hosts.empty()), 0;
  if (found)
    return check(*found), 0;
  require(!found.error().text.empty() && found.error().text.find('\n') == std::string::npos);
  return 0;
}
