#include "tools/farandole/placers/slurm.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace farandole {

namespace {

/// srun takes these variables of the job for options. They describe tasks of the job, of which the workers on a host are
/// several, and would limit the one agent of the host to the share of one of them.
constexpr std::string_view task_variables[] = {
    "SLURM_CPUS_PER_TASK",
    "SRUN_CPUS_PER_TASK",
    "SLURM_DISTRIBUTION",
    "SLURM_EXACT",
    "SLURM_GPUS_PER_TASK",
    "SLURM_GPU_BIND",
    "SLURM_HINT",
    "SLURM_NTASKS_PER_CORE",
    "SLURM_NTASKS_PER_GPU",
    "SLURM_NTASKS_PER_SOCKET",
    "SLURM_NTASKS_PER_TRES",
    "SLURM_THREADS_PER_CORE",
    "SLURM_TRES_PER_TASK",
    "SLURM_TRES_BIND",
};

} // namespace

placer slurm_placer(const agent_program& program, bool survives_failures,
                    std::span<const std::string> environment) {
  placer made;
  made.name = "srun";
  made.remedy = "; put Slurm's srun on PATH, or name the hosts with -H name:slots to reach them by ssh";
  made.programs = program.candidates();
  made.takes_all_hosts = true;
  std::ranges::copy_if(environment, std::back_inserter(made.environment), [](const std::string& entry) {
    return std::ranges::find(task_variables, std::string_view(entry).substr(0, entry.find('='))) ==
           std::end(task_variables);
  });
  made.command = [program, survives_failures](std::span<const std::string> hosts, std::uint16_t port) {
    std::string list;
    for (const auto& host : hosts)
      list += (list.empty() ? "" : ",") + host;
    const auto count = std::to_string(hosts.size());
    // The step shares all resources of the job with other steps (--overlap). The options override variables of the job
    // that srun takes for options. The agents start workers that share the CPUs of the host, so srun binds nothing.
    std::vector<std::string> words{"srun",
                                   "--overlap",
                                   "--nodes=" + count,
                                   "--ntasks=" + count,
                                   "--ntasks-per-node=1",
                                   "--nodelist=" + list,
                                   "--input=all",
                                   "--mpi=none",
                                   "--cpu-bind=none",
                                   "--wait=0",
                                   survives_failures ? "--kill-on-bad-exit=0" : "--kill-on-bad-exit=1"};
    const auto agent = agent_words(program, port, "$SLURMD_NODENAME");
    words.insert(words.end(), agent.begin(), agent.end());
    return words;
  };
  return made;
}

} // namespace farandole
