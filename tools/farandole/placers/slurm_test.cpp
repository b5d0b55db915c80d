#include "tools/farandole/placers/slurm.hpp"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace farandole;

namespace {

const std::vector<std::string> environment{"PATH=/bin", "SLURM_JOB_ID=7"};
const agent_program program{"", "/opt/farandole", {"10.0.0.1"}};

std::vector<std::string> command(bool survives_failures) {
  const std::vector<std::string> hosts{"a", "b"};
  return slurm_placer(program, survives_failures, environment).command(hosts, 4711);
}

} // namespace

TEST_CASE("one step starts an agent on each host, which learns its name from Slurm") {
  CHECK(slurm_placer(program, false, environment).takes_all_hosts);
  CHECK(command(false) ==
        std::vector<std::string>{"srun",
                                 "--overlap",
                                 "--nodes=2",
                                 "--ntasks=2",
                                 "--ntasks-per-node=1",
                                 "--nodelist=a,b",
                                 "--input=all",
                                 "--mpi=none",
                                 "--cpu-bind=none",
                                 "--wait=0",
                                 "--kill-on-bad-exit=1",
                                 "sh",
                                 "-c",
                                 "if test -x \"/opt/farandole\"; then exec \"/opt/farandole\" \"$@\" --host "
                                 "\"$SLURMD_NODENAME\"; else "
                                 "exec farandole \"$@\" --host \"$SLURMD_NODENAME\"; fi",
                                 "farandole",
                                 "agent",
                                 "--launcher",
                                 "10.0.0.1:4711",
                                 "--secret-file",
                                 "-"});
}

TEST_CASE("in an elastic job, the step continues when the agent of a host fails") {
  const auto words = command(true);
  CHECK(std::ranges::count(words, "--kill-on-bad-exit=0") == 1);
  CHECK(std::ranges::count(words, "--kill-on-bad-exit=1") == 0);
}

TEST_CASE("srun does not learn what share of a host one task of the job gets") {
  CHECK(slurm_placer(program, false, environment).environment == environment);
  auto of_job = environment;
  for (const auto* name : {"SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_DISTRIBUTION", "SLURM_EXACT",
                           "SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND", "SLURM_HINT", "SLURM_NTASKS_PER_CORE",
                           "SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_SOCKET", "SLURM_NTASKS_PER_TRES",
                           "SLURM_THREADS_PER_CORE", "SLURM_TRES_PER_TASK", "SLURM_TRES_BIND"})
    of_job.push_back(std::string(name) + "=1");
  CHECK(slurm_placer(program, false, of_job).environment == environment);
}
