// On LSF clusters with CSM (Cluster System Management), the compute hosts of a job and their cores and GPUs are known
// from CSM's queries, which print YAML. These parsers read what `csm_allocation_query -a ID`,
// `csm_node_attributes_query -n HOST` and `lscpu` printed. Nothing is started here.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "elastic/host_slots.hpp"
#include "messages/values/error.hpp"

namespace farandole {

struct csm_allocation {
  std::vector<std::string> compute_hosts;
  std::int32_t isolated_cores = 0; ///< per socket: cores that the system keeps for itself
};

/// One compute host; CSM allocates only hosts of one type to a job.
struct csm_host {
  std::int32_t cores = 0;
  std::int32_t sockets = 0;
  std::int32_t gpus = 0;
};

/// The errors quote the key that is missing or has a wrong value.
expected<csm_allocation> parse_csm_allocation(const std::string& printed);
expected<csm_host> parse_csm_host(const std::string& printed);
/// The number after "Thread(s) per core:".
expected<std::int32_t> parse_threads_per_core(std::string_view printed);

/// The compute hosts, each with a slot for each GPU.
expected<std::vector<host_slots>> csm_host_slots(const csm_allocation& allocation, const csm_host& host);
/// The logical CPUs of each host that jobs may use.
expected<std::int32_t> csm_cpus_per_host(const csm_allocation& allocation, const csm_host& host,
                                         std::int32_t threads_per_core);

/// Runs a command and returns its output, or an error with the reason if there is none.
using output_reader = std::function<expected<std::string>(const std::vector<std::string>& command)>;

/// An environment in whose PATH the folder of CSM's programs is the last.
std::vector<std::string> with_csm_folder(std::vector<std::string> environment);

/// Asks CSM for the compute hosts of an allocation and their slots. The error ends with the remedy.
expected<std::vector<host_slots>> query_csm_hosts(const std::string& allocation,
                                                  const output_reader& output_of);
/// Asks CSM, and lscpu on the first compute host, for the logical CPUs of each host. `on_host` makes the command that
/// runs a command line on a host. The error ends with the remedy.
expected<std::int32_t> query_csm_cpus(
    const std::string& allocation, const output_reader& output_of,
    const std::function<std::vector<std::string>(const std::string& host, std::string line)>& on_host);

} // namespace farandole
