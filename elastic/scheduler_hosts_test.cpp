#include "elastic/scheduler_hosts.hpp"

#include <catch2/catch.hpp>
#include <map>

using namespace farandole;

namespace {

using variables = std::map<std::string, std::string, std::less<>>;
using hosts = std::vector<host_slots>;

expected<scheduler_hosts> find(const variables& set, const variables& files = {}) {
  return find_scheduler_hosts(
      [&set](std::string_view name) {
        const auto entry = set.find(name);
        return entry == set.end() ? std::nullopt : std::optional(entry->second);
      },
      [&files](const std::string& path) -> expected<std::string> {
        const auto entry = files.find(path);
        if (entry == files.end())
          return error{error_kind::invalid_argument, "the file cannot be read: No such file or directory"};
        return entry->second;
      });
}

hosts hosts_of(const variables& set, const variables& files = {}) {
  const auto found = find(set, files);
  INFO((found ? "" : found.error().text));
  REQUIRE(found);
  CHECK(found->csm_allocation.empty());
  return found->hosts;
}

std::string refusal(const variables& set, const variables& files = {}) {
  const auto found = find(set, files);
  REQUIRE_FALSE(found);
  CHECK(found.error().kind == error_kind::invalid_argument);
  CHECK_THAT(found.error().text, Catch::Contains("name the hosts with -H name:slots"));
  return found.error().text;
}

variables slurm(const std::string& list, const std::string& tasks) {
  return {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", list}, {"SLURM_TASKS_PER_NODE", tasks}};
}

} // namespace

TEST_CASE("a process outside of an allocation has no scheduler and no hosts") {
  for (const auto& set :
       {variables{}, variables{{"SLURM_JOB_ID", ""}, {"LSB_JOBID", ""}, {"PBS_NODEFILE", ""}},
        variables{{"SLURM_TASKS_PER_NODE", "2"}, {"LSB_MCPU_HOSTS", "h 1"}}}) {
    const auto found = find(set);
    REQUIRE(found);
    CHECK(found->scheduler == batch_scheduler::none);
    CHECK(found->hosts.empty());
  }
}

TEST_CASE("a task of srun is not in a job of Slurm, but a batch script and an interactive shell are") {
  auto set = slurm("n1", "2");
  set["SLURM_STEP_ID"] = "0";
  CHECK(find(set)->scheduler == batch_scheduler::none);
  set["SLURM_STEP_ID"] = "4294967290"; // the interactive step of salloc
  CHECK(find(set)->scheduler == batch_scheduler::slurm);
}

TEST_CASE("Slurm comes before LSF, and LSF before PBS") {
  variables set = {{"PBS_JOBID", "1"}, {"PBS_NODEFILE", "/n"}, {"LSB_JOBID", "2"}, {"LSB_MCPU_HOSTS", "l 1"}};
  const variables files = {{"/n", "p\n"}};
  CHECK(find(set, files)->scheduler == batch_scheduler::lsf);
  CHECK(hosts_of(set, files) == hosts{{"l", 1}});
  set["SLURM_JOB_NODELIST"] = "s";
  set["SLURM_TASKS_PER_NODE"] = "1";
  CHECK(find(set, files)->scheduler == batch_scheduler::slurm);
  CHECK(hosts_of(set, files) == hosts{{"s", 1}});
  CHECK(find({{"PBS_NODEFILE", "/n"}}, files)->scheduler == batch_scheduler::pbs);
  CHECK(to_string(batch_scheduler::slurm) == "Slurm");
  CHECK(to_string(batch_scheduler::lsf) == "LSF");
  CHECK(to_string(batch_scheduler::pbs) == "PBS");
}

TEST_CASE("in Slurm the hosts of the node list get the slots of the task counts in turn") {
  CHECK(hosts_of(slurm("n[1-3],login", "2(x3),1")) == hosts{{"n1", 2}, {"n2", 2}, {"n3", 2}, {"login", 1}});
  CHECK(hosts_of(slurm("a,b,a", "1,2,3")) == hosts{{"a", 4}, {"b", 2}});
}

TEST_CASE("in Slurm the task counts win over the number of tasks, and that over the cores of this host") {
  auto set = slurm("n[1-2]", "3,1");
  set["SLURM_NTASKS"] = "5";
  set["SLURM_CPUS_ON_NODE"] = "8";
  CHECK(hosts_of(set) == hosts{{"n1", 3}, {"n2", 1}});
  set.erase("SLURM_TASKS_PER_NODE");
  CHECK(hosts_of(set) == hosts{{"n1", 3}, {"n2", 2}});
  set["SLURM_NTASKS"] = "";
  CHECK(hosts_of(set) == hosts{{"n1", 8}, {"n2", 8}});
}

TEST_CASE("an unusable variable of Slurm is named with its value and the remedy") {
  CHECK_THAT(
      refusal(slurm("n[1-", "1")),
      Catch::StartsWith("SLURM_JOB_NODELIST='n[1-' cannot be used: the bracket in 'n[1-' is not closed; "));
  CHECK_THAT(refusal(slurm("n[1-999999999]", "1")),
             Catch::StartsWith(
                 "SLURM_JOB_NODELIST='n[1-999999999]' cannot be used: it names more than 65536 hosts"));
  CHECK_THAT(refusal(slurm("n1", "2(x")), Catch::StartsWith("SLURM_TASKS_PER_NODE='2(x' cannot be used: "));
  CHECK_THAT(refusal(slurm("n[1-3]", "2(x4)")),
             Catch::Contains("it describes 4 hosts, but SLURM_JOB_NODELIST names 3"));
  CHECK_THAT(refusal({{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_NTASKS", "2"}}),
             Catch::StartsWith("SLURM_NTASKS='2' cannot be used: these are fewer tasks than the 3 hosts"));
  for (const auto* name : {"SLURM_NTASKS", "SLURM_CPUS_ON_NODE"})
    for (const auto* value : {"0", "x", "65537"})
      CHECK_THAT(
          refusal({{"SLURM_JOB_NODELIST", "n1"}, {name, value}}),
          Catch::StartsWith(std::string(name) + "='" + value + "' cannot be used: it is no number from 1"));
  CHECK_THAT(refusal({{"SLURM_JOB_ID", "7"}}),
             Catch::Contains("job of Slurm, but SLURM_JOB_NODELIST is not set"));
  CHECK_THAT(refusal({{"SLURM_JOB_NODELIST", "n1"}}),
             Catch::Contains("none of SLURM_TASKS_PER_NODE, SLURM_NTASKS and SLURM_CPUS_ON_NODE is set"));
}

TEST_CASE("more slots than a job may have are refused, whether one host has them or many") {
  CHECK(hosts_of(slurm("n[1-2]", "32768(x2)")).size() == 2);
  CHECK(hosts_of(slurm("n[1-65536]", "1(x65536)")).size() == 65536);
  for (const auto& set :
       {slurm("n[1-2]", "32768,32769"), slurm("n[1-40000]", "2(x40000)"), slurm("a,a", "65536,1"),
        variables{{"LSB_JOBID", "1"}, {"LSB_MCPU_HOSTS", "a 65536 b 1"}}})
    CHECK_THAT(refusal(set), Catch::Contains("more than 65536 slots altogether"));
}

TEST_CASE("a long value is quoted in part, and its control characters are escaped") {
  const auto text = refusal(slurm(std::string(100000, 'n') + "[", "1"));
  CHECK(text.size() < 600);
  CHECK_THAT(text, Catch::Contains("n…'"));
  CHECK(refusal(slurm("a\x1b[31m\n", "1")).find_first_of("\x1b\n") == std::string::npos);
}

TEST_CASE("in LSF the host file has a line for each slot, and wins over the list of hosts") {
  const variables set = {{"LSB_JOBID", "1"}, {"LSB_DJOB_HOSTFILE", "/h"}, {"LSB_MCPU_HOSTS", "x 9"}};
  CHECK(hosts_of(set, {{"/h", "b\nb\r\n\n  a \nb"}}) == hosts{{"b", 3}, {"a", 1}});
  CHECK_THAT(refusal(set),
             Catch::StartsWith("LSB_DJOB_HOSTFILE='/h' cannot be used: the file cannot be read: No such"));
  CHECK_THAT(refusal(set, {{"/h", "a\n\nb c\n"}}),
             Catch::Contains("line 3 of the file, 'b c', is no host name"));
  CHECK_THAT(refusal(set, {{"/h", std::string(254, 'a')}}), Catch::Contains("line 1 of the file"));
}

TEST_CASE("in LSF the list of hosts has names and slots in turn") {
  const auto list = [](const std::string& text) {
    return variables{{"LSB_JOBID", "1"}, {"LSB_MCPU_HOSTS", text}};
  };
  CHECK(hosts_of(list("h1 4 h2 2")) == hosts{{"h1", 4}, {"h2", 2}});
  CHECK(hosts_of(list(" h1  1 h2 2\th1 3 ")) == hosts{{"h1", 4}, {"h2", 2}});
  for (const auto* text : {"h1", "h1 4 h2", "h1 0", "h1 h2 4 4", "h:1 4", "h1 -1"})
    CHECK_THAT(refusal(list(text)), Catch::StartsWith("LSB_MCPU_HOSTS='" + std::string(text) +
                                                      "' cannot be used: it must hold a host name"));
  CHECK_THAT(refusal(list("  ")), Catch::Contains("it names no host"));
  CHECK_THAT(refusal({{"LSB_JOBID", "1"}}),
             Catch::Contains("job of LSF, but neither LSB_DJOB_HOSTFILE nor LSB_MCPU_HOSTS is set"));
}

TEST_CASE("an LSF job with CSM takes its hosts from CSM, because LSF lists the launch host first") {
  const auto found =
      find({{"LSB_JOBID", "1"}, {"LSB_MCPU_HOSTS", "batch1 1 h1 42"}, {"CSM_ALLOCATION_ID", "77"}});
  REQUIRE(found);
  CHECK(found->scheduler == batch_scheduler::lsf);
  CHECK(found->csm_allocation == "77");
  CHECK(found->hosts.empty());
  CHECK(hosts_of({{"LSB_JOBID", "1"}, {"LSB_MCPU_HOSTS", "h1 4"}, {"CSM_ALLOCATION_ID", ""}}) ==
        hosts{{"h1", 4}});
}

TEST_CASE("in PBS the node file has a line for each slot, and repeated names add up") {
  const variables set = {{"PBS_JOBID", "1"}, {"PBS_NODEFILE", "/n"}};
  CHECK(hosts_of(set, {{"/n", "n2.x\nn1\nn2.x\n"}}) == hosts{{"n2.x", 2}, {"n1", 1}});
  CHECK_THAT(refusal(set, {{"/n", "\n \n"}}),
             Catch::StartsWith("PBS_NODEFILE='/n' cannot be used: it names no host"));
  CHECK_THAT(refusal({{"PBS_JOBID", "1"}}), Catch::Contains("job of PBS, but PBS_NODEFILE is not set"));
  std::string lines;
  for (std::int32_t line = 0; line < most_slots; ++line)
    lines += "n\n";
  CHECK(hosts_of(set, {{"/n", lines}}) == hosts{{"n", most_slots}});
  CHECK_THAT(refusal(set, {{"/n", lines + "n\n"}}), Catch::Contains("more than 65536 slots altogether"));
}
