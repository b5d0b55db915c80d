#include "tools/farandole/host_options.hpp"

#include <catch2/catch.hpp>

#include "tools/farandole/command_line_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

TEST_CASE("without hosts, the local host has as many slots as processes", "[host options]") {
  CHECK(parsed({"-np", "3", "true"}).hosts == std::vector<host_slots>{{"localhost", 3}});
}

TEST_CASE("in the job of a scheduler, hosts and the number of processes come from it", "[host options]") {
  const std::map<std::string, std::string> variables{
      {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_TASKS_PER_NODE", "2,3"}};
  const std::vector<host_slots> nodes{{"n1", 2}, {"n2", 3}};
  auto got = parsed({"true"}, around(variables));
  CHECK(got.hosts == nodes);
  CHECK(got.processes == 5);
  CHECK(got.allocated_by == batch_scheduler::slurm);
  got = parsed({"-np", "3", "true"}, around(variables));
  CHECK(got.hosts == nodes);
  CHECK(got.processes == 3);
  got = parsed({"--min-np", "2", "true"}, around(variables));
  CHECK(got.hosts == nodes);
  CHECK(got.scheduler.processes == 5);
  CHECK(got.scheduler.limit == 5);
  got = parsed({"-H", "x:2,y:1", "true"}, around(variables));
  CHECK(got.hosts == std::vector<host_slots>{{"x", 2}, {"y", 1}});
  CHECK(got.processes == 3);
  CHECK(got.allocated_by == batch_scheduler::none);
  CHECK(contains(refusal({"-np", "6", "true"}, around(variables)), "only 5 slots"));
  auto cut_off = variables;
  cut_off["SLURM_JOB_NODELIST"] = "n[1-";
  CHECK(contains(refusal({"true"}, around(cut_off)), "SLURM_JOB_NODELIST='n[1-' cannot be used: "));
  CHECK(parsed({"-np", "2", "-H", "x:2", "true"}, around(cut_off)).processes == 2);
  CHECK(contains(refusal({"true"}, around({{"PBS_JOBID", "1"}})), "PBS_NODEFILE is not set"));
  auto task = variables;
  task["SLURM_STEP_ID"] = "0";
  CHECK(parsed({"-np", "4", "true"}, around(task)).hosts == std::vector<host_slots>{{"localhost", 4}});
  CHECK(contains(refusal({"true"}, around(task)), "required: -np/--num-proc"));
}

TEST_CASE("in a job of LSF with CSM, the compute hosts have a slot for each GPU", "[host options]") {
  const auto got = parsed({"true"}, around({{"LSB_JOBID", "7"}, {"CSM_ALLOCATION_ID", "42"}}));
  CHECK(got.hosts == std::vector<host_slots>{{"b", 6}, {"c", 6}});
  CHECK(got.processes == 12);
  CHECK(got.allocated_by == batch_scheduler::lsf);
}

TEST_CASE("port and key of ssh are read, and a port that is none is refused", "[host options]") {
  const auto got = parsed({"-p", "2222", "-i", "key", "-np", "1", "true"});
  CHECK(got.ssh_port == 2222);
  CHECK(got.ssh_identity_file == "key");
  CHECK(got.warnings.empty());
  for (const char* port : {"x", "0", "65536"})
    CHECK(contains(refusal({"-np", "1", "-p", port, "true"}), "-p"));
}

TEST_CASE("--agents gives the number of agents that users start, and needs a secret", "[host options]") {
  const auto with_secret = around({{"FARANDOLE_SECRET_FILE", "secret"}});
  auto got = parsed({"--agents", "2", "-np", "4", "true"}, with_secret);
  CHECK(got.fewest_agents == 2);
  CHECK(got.most_agents == 2);
  got = parsed({"--agents", "2:8", "--min-np", "3", "true"}, with_secret);
  CHECK(got.fewest_agents == 2);
  CHECK(got.most_agents == 8);
  CHECK(got.processes == 3);
  CHECK(got.scheduler.limit == most_slots);
  CHECK(got.agent_port == 0);
  CHECK(parsed({"--agents", "2", "--agent-port", "7070", "-np", "4", "true"}, with_secret).agent_port ==
        7070);
  CHECK(contains(refusal({"--agent-port", "7070", "-np", "4", "true"}, with_secret), "--agents"));
  CHECK(contains(refusal({"--agents", "2", "--agent-port", "0", "-np", "4", "true"}, with_secret),
                 "--agent-port"));
  CHECK(contains(refusal({"--agents", "2", "-np", "4", "true"}), "FARANDOLE_SECRET_FILE"));
  CHECK(contains(refusal({"--agents", "2:8", "-np", "4", "true"}, with_secret), "only an elastic job"));
  CHECK(contains(refusal({"--agents", "2", "true"}, with_secret), "-np"));
  for (const char* text : {"0", "3:2", "x", "2:", ":2", "99999999"})
    CHECK(contains(refusal({"--agents", text, "--min-np", "1", "true"}, with_secret), "neither a number"));
  CHECK_FALSE(refusal({"--agents", "2", "-H", "a:1", "-np", "1", "true"}, with_secret).empty());
}

TEST_CASE("hosts that are reached by ssh in any case are a list of hosts of the job", "[host options]") {
  auto got = parsed({"--remote-hosts", "b,a,", "-H", "a:1,b:1", "-np", "1", "true"});
  CHECK(got.remote_hosts == std::set<std::string>{"a", "b"});
  CHECK(got.warnings.empty());
  got = parsed({"--remote-hosts", "b,a", "-H", "a:1", "-np", "1", "true"});
  CHECK(got.warnings == words{"WARNING: --remote-hosts b has no effect: the job has no host of this name"});
  CHECK(parsed({"--remote-hosts", "b", "--host-discovery-script", "/bin/true", "-np", "1", "true"})
            .warnings.empty());
  CHECK(parsed({"-np", "1", "true"}).remote_hosts.empty());
}

TEST_CASE("options of ssh are reported as without effect where ssh starts no agents", "[host options]") {
  using variables = std::map<std::string, std::string>;
  const words options{"-p", "22", "-i", "key", "-np", "1", "true"};
  const auto warnings_for = [](const std::string& reason) {
    return words{"WARNING: --ssh-port has no effect: " + reason,
                 "WARNING: --ssh-identity-file has no effect: " + reason};
  };
  const auto warnings_with = [&](variables values) {
    return parsed(options, around(std::move(values))).warnings;
  };
  CHECK(warnings_with({}).empty());
  CHECK(warnings_with({{"FARANDOLE_RSH", "/usr/bin/ssh -F config"}}).empty());
  CHECK(warnings_with({{"FARANDOLE_RSH", "farandole rsh"}}) ==
        warnings_for("the remote shell (FARANDOLE_RSH) is not ssh"));
  CHECK(warnings_with({{"OMPI_MCA_plm_rsh_agent", "/etc/mpi/kubexec.sh"}}) ==
        warnings_for("the remote shell (OMPI_MCA_plm_rsh_agent) is not ssh"));
  variables slurm{{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n1"}, {"SLURM_TASKS_PER_NODE", "1"}};
  CHECK(warnings_with(slurm) == warnings_for("srun starts the agents"));
  slurm["FARANDOLE_RSH"] = "ssh";
  CHECK(warnings_with(slurm).empty());
  auto by_mpi = options;
  by_mpi.insert(by_mpi.begin(), "--mpi");
  CHECK(parsed(by_mpi, around({{"FARANDOLE_RSH", "farandole rsh"}})).warnings.empty());
  auto by_users = options;
  by_users.insert(by_users.begin(), {"--agents", "1", "--remote-hosts", "b"});
  auto wanted = warnings_for("with --agents, you start the agents");
  wanted.emplace_back("WARNING: --remote-hosts has no effect: with --agents, you start the agents");
  CHECK(parsed(by_users, around({{"FARANDOLE_SECRET_FILE", "secret"}})).warnings == wanted);
}

TEST_CASE("an empty list of hosts is refused", "[host options]") {
  for (const words& options : {words{"-H", ""}, words{"--hosts="}, words{"--hostfile", ""},
                               words{"--host-discovery-script", ""}, words{"--min-np", "1", "-H", ""}}) {
    words given{"-np", "1"};
    given.insert(given.end(), options.begin(), options.end());
    given.emplace_back("true");
    CHECK(contains(refusal(given), "is empty; name the hosts"));
  }
  const file hosts("# none\n");
  CHECK(contains(refusal({"-np", "1", "--hostfile", hosts.path, "true"}), "0 slots"));
}

TEST_CASE("a host file is read", "[host options]") {
  const file hosts("localhost slots=2\n");
  CHECK(parsed({"-np", "2", "-hostfile", hosts.path, "true"}).hosts ==
        std::vector<host_slots>{{"localhost", 2}});
  refusal({"-np", "2", "-hostfile", "/nonexistent", "true"});
}
