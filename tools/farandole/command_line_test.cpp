#include "tools/farandole/command_line.hpp"

#include <catch2/catch.hpp>

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include <sys/stat.h>
#include <unistd.h>

using namespace farandole;
using words = std::vector<std::string>;

namespace {

surroundings around(std::map<std::string, std::string> variables = {}, bool has_jsrun = false) {
  return {[variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
            const auto found = variables.find(std::string(name));
            return found == variables.end() ? std::nullopt : std::optional(found->second);
          },
          has_jsrun};
}

run_request parsed(const words& given, const surroundings& environment = around()) {
  auto result = parse_run("horovodrun", given, environment);
  if (!result)
    FAIL(result.error().text);
  return *result;
}

std::string refusal(const words& given, const surroundings& environment = around()) {
  auto result = parse_run("horovodrun", given, environment);
  REQUIRE_FALSE(result);
  CHECK(result.error().text.starts_with("usage: horovodrun "));
  return result.error().text;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// A file that is removed at the end of the test.
struct file {
  std::string path;
  explicit file(const std::string& content) {
    char name[] = "/tmp/farandole-test-XXXXXX";
    const int fd = ::mkstemp(name);
    REQUIRE(fd >= 0);
    ::close(fd);
    path = name;
    std::ofstream(path) << content;
  }
  ~file() { std::remove(path.c_str()); }
};

} // namespace

TEST_CASE("processes, hosts and the command are taken from the command line", "[command line]") {
  const auto got = parsed({"-np", "2", "-H", "localhost:4", "python", "train.py", "--verbose"});
  CHECK(got.value == run_request::kind::run);
  CHECK(got.processes == 2);
  CHECK(got.hosts == std::vector<host_slots>{{"localhost", 4}});
  CHECK(got.command == words{"python", "train.py", "--verbose"});
  CHECK_FALSE(got.verbose);
}

TEST_CASE("without hosts, the local host has as many slots as processes", "[command line]") {
  CHECK(parsed({"-np", "3", "true"}).hosts == std::vector<host_slots>{{"localhost", 3}});
}

TEST_CASE("every flag of the settings table is an option", "[command line]") {
  for (const auto& row : setting_table()) {
    for (const auto flag : {row.flag, row.flag_off}) {
      if (flag.empty())
        continue;
      words given{"-np", "1", std::string(flag)};
      if (row.type != setting_type::flag)
        given.push_back(row.id == setting::log_level ? "INFO" : "1");
      given.push_back("true");
      INFO(flag);
      const auto got = parsed(given);
      CHECK(got.values.source(row.id) == setting_source::flag);
      if (row.type == setting_type::flag)
        CHECK(got.values.flag(row.id) == (flag == row.flag));
    }
  }
}

TEST_CASE("an option and its opposite exclude each other", "[command line]") {
  for (const auto& row : setting_table())
    if (!row.flag_off.empty())
      refusal({"-np", "1", std::string(row.flag), std::string(row.flag_off), "true"});
  refusal({"-np", "1", "--gloo", "--mpi", "true"});
  refusal({"-np", "1", "-H", "a:1", "--hostfile", "x", "true"});
}

TEST_CASE("options beat the config file, which beats the environment, in any order", "[command line]") {
  const file config("params:\n  cache_capacity: 5\n  cycle_time_ms: 7\nodd: 1\n");
  const auto environment = around(
      {{"HOROVOD_CACHE_CAPACITY", "1"}, {"HOROVOD_CYCLE_TIME", "1"}, {"HOROVOD_FUSION_THRESHOLD", "9"}});
  for (const auto& given : {words{"--cache-capacity", "6", "--config-file", config.path, "-np", "1", "true"},
                            words{"--config-file", config.path, "-np", "1", "--cache-capacity=6", "true"}}) {
    const auto got = parsed(given, environment);
    CHECK(got.values.integer(setting::cache_capacity) == 6);
    CHECK(got.values.duration(setting::cycle_time) == std::chrono::milliseconds(7));
    CHECK(got.values.integer(setting::fusion_threshold) == 9);
    REQUIRE(got.warnings.size() == 1);
    CHECK(contains(got.warnings[0], "'odd'"));
  }
}

TEST_CASE("values out of range are refused with name, value and range", "[command line]") {
  CHECK(contains(refusal({"-np", "1", "--cycle-time-ms", "-1", "true"}),
                 "cycle time (--cycle-time-ms) = '-1' is out of range: 0 to"));
  CHECK(contains(refusal({"-np", "1", "--autotune-gaussian-process-noise", "2", "true"}), "0 to 1"));
  CHECK(contains(refusal({"-np", "0", "true"}), "-np 0 is out of range"));
  refusal({"-np", "two", "true"});
  refusal({"-np", "1", "--blacklist-cooldown-range", "0", "5", "true"});
  refusal({"-np", "1", "--thread-affinity", "1,x", "true"});
  CHECK(parsed({"-np", "1", "--thread-affinity", "1,3", "true"}).values.text(setting::thread_affinity) ==
        "1,3");
}

TEST_CASE("missing arguments are named", "[command line]") {
  CHECK(contains(refusal({"true"}), "required: -np/--num-proc"));
  CHECK(contains(refusal({"-np", "2"}), "no command"));
  CHECK(contains(refusal({"-np", "3", "-H", "localhost:2", "true"}), "only 2 slots"));
  CHECK(contains(refusal({"-np", "3", "-H", "localhost", "true"}), "name:slots"));
}

TEST_CASE("the version, the report and help need no other arguments", "[command line]") {
  CHECK(parsed({"-v"}).value == run_request::kind::version);
  CHECK(parsed({"--check-build"}).value == run_request::kind::check);
  CHECK(parsed({"-cb"}).value == run_request::kind::check);
  const auto help = parsed({"--help"});
  CHECK(help.value == run_request::kind::help);
  CHECK(contains(help.text, "-np,"));
  CHECK(contains(help.text, "Examples:"));
  CHECK(contains(help.text, "HOROVOD_FUSION_THRESHOLD"));
  CHECK_FALSE(contains(help.text, "--no-autotune"));
  CHECK_FALSE(contains(help.text, "Excludes"));
}

TEST_CASE("--disable-cache is accepted without a warning, and the help says that nothing is cached",
          "[command line]") {
  const auto got = parsed({"-np", "1", "--disable-cache", "true"});
  CHECK(got.warnings.empty());
  CHECK(got.command == words{"true"});
  const auto help = parsed({"--help"}).text;
  const auto begin = help.find("--disable-cache");
  CHECK(contains(help.substr(begin, help.find("\n  --", begin) - begin), "nothing is cached"));
}

TEST_CASE("help fits a terminal, and describes elastic jobs in one place", "[command line]") {
  const auto help = parsed({"--help"}).text;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);)
    CHECK(line.size() <= 118);
  const auto elastic = help.find("\nElastic jobs:\n");
  REQUIRE(elastic != std::string::npos);
  const auto group = help.substr(elastic, help.find("\n\n", elastic + 1) - elastic);
  for (const char* name : {"--min-np,--min-num-proc", "--max-np,--max-num-proc", "--slots-per-host,--slots",
                           "--elastic-timeout", "--reset-limit", "--blacklist-cooldown-range"})
    CHECK(contains(group, name));
  CHECK(contains(help, "program that prints the hosts"));
  CHECK_FALSE(contains(help, "{program}"));
}

TEST_CASE("modes that are not offered yet are refused by name", "[command line]") {
  for (const words& options : {words{"--mpi"}, words{"--jsrun"}}) {
    auto given = options;
    given.insert(given.end(), {"-np", "2", "true"});
    CHECK(contains(refusal(given), "not offered yet"));
  }
  const file config("controller: mpi\n");
  CHECK(contains(refusal({"-np", "1", "--config-file", config.path, "true"}), "not offered yet"));
  CHECK(parsed({"-np", "1", "--config-file", config.path, "--gloo", "true"}).command == words{"true"});
  const auto lsf = around({{"LSB_JOBID", "1"}}, true);
  CHECK(contains(refusal({"-np", "1", "true"}, lsf), "jsrun"));
  CHECK(parsed({"-np", "1", "--gloo", "true"}, lsf).command == words{"true"});
}

TEST_CASE("options without effect are read, change nothing and are named in one warning", "[command line]") {
  const auto got = parsed({"--binding-args", "x", "--mpi-args=-x A", "--mpi-args=", "-np", "1", "true"});
  CHECK(got.command == words{"true"});
  CHECK(got.warnings == words{"WARNING: --mpi-args and --binding-args have no effect in this build"});
}

TEST_CASE("port and key of ssh are read, and a port that is none is refused", "[command line]") {
  const auto got = parsed({"-p", "2222", "-i", "key", "-np", "1", "true"});
  CHECK(got.ssh_port == 2222);
  CHECK(got.ssh_identity_file == "key");
  CHECK(got.warnings.empty());
  for (const char* port : {"x", "0", "65536"})
    CHECK(contains(refusal({"-np", "1", "-p", port, "true"}), "-p"));
}

TEST_CASE("--agents gives the number of agents that users start, and needs a secret", "[command line]") {
  const auto with_secret = around({{"FARANDOLE_SECRET_FILE", "secret"}});
  auto got = parsed({"--agents", "2", "-np", "4", "true"}, with_secret);
  CHECK(got.fewest_agents == 2);
  CHECK(got.most_agents == 2);
  got = parsed({"--agents", "2:8", "--min-np", "3", "true"}, with_secret);
  CHECK(got.fewest_agents == 2);
  CHECK(got.most_agents == 8);
  CHECK(got.processes == 3);
  CHECK(got.scheduler.limit == most_slots);
  CHECK(contains(refusal({"--agents", "2", "-np", "4", "true"}), "FARANDOLE_SECRET_FILE"));
  CHECK(contains(refusal({"--agents", "2:8", "-np", "4", "true"}, with_secret), "only an elastic job"));
  CHECK(contains(refusal({"--agents", "2", "true"}, with_secret), "-np"));
  for (const char* text : {"0", "3:2", "x", "2:", ":2", "99999999"})
    CHECK(contains(refusal({"--agents", text, "--min-np", "1", "true"}, with_secret), "neither a number"));
  CHECK_FALSE(refusal({"--agents", "2", "-H", "a:1", "-np", "1", "true"}, with_secret).empty());
}

TEST_CASE("a caller that starts the workers gives an address, a channel and a secret", "[command line]") {
  const auto with_secret = around({{"FARANDOLE_SECRET_FILE", "secret"}});
  const words by_caller{"--caller-address", "10.0.0.1", "--call-descriptor", "3", "-np", "2", "true"};
  CHECK(parsed(by_caller, with_secret).caller_address == "10.0.0.1");
  CHECK(contains(refusal(by_caller), "--caller-address 10.0.0.1 is for programs"));
  CHECK(contains(refusal({"--caller-address", "10.0.0.1", "-np", "2", "true"}, with_secret),
                 "needs --call-descriptor"));
  CHECK(contains(
      refusal({"--caller-address", "10.0.0.1", "--call-descriptor", "3", "--agents", "2", "-np", "2", "true"},
              with_secret),
      "cannot be combined with --agents"));
}

TEST_CASE("hosts that are reached by ssh in any case are a list", "[command line]") {
  CHECK(parsed({"--remote-hosts", "b,a,", "-np", "1", "true"}).remote_hosts ==
        std::set<std::string>{"a", "b"});
  CHECK(parsed({"-np", "1", "true"}).remote_hosts.empty());
}

TEST_CASE("settings without effect are named in the same warning, from any source", "[command line]") {
  const file config("timeline:\n  filename: t.json\nautotune:\n  warmup_samples: 1\n");
  const auto got =
      parsed({"--autotune", "--binding-args", "x", "--config-file", config.path, "-np", "1", "true"},
             around({{"HOROVOD_THREAD_AFFINITY", "0"}}));
  CHECK(got.warnings ==
        words{"WARNING: timeline.filename (config file), --autotune, HOROVOD_THREAD_AFFINITY, "
              "autotune.warmup_samples (config file) and --binding-args have no effect in this "
              "build"});
  CHECK(parsed({"--no-autotune", "--cache-capacity", "1", "-np", "1", "true"}).warnings.empty());
}

TEST_CASE("unknown variables are named in one warning, of a job and of the report only", "[command line]") {
  auto environment = around();
  environment.variables = {"HOME", "HOROVOD_LOG_LEVL", "HOROVOD_RANK"};
  const words wanted{"WARNING: unknown environment variable: HOROVOD_LOG_LEVL (did you mean "
                     "HOROVOD_LOG_LEVEL?); nothing reads it"};
  CHECK(parsed({"-np", "1", "true"}, environment).warnings == wanted);
  CHECK(parsed({"--check-build"}, environment).warnings == wanted);
  CHECK(parsed({"--version"}, environment).warnings.empty());
}

TEST_CASE("an empty list of hosts is refused", "[command line]") {
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

TEST_CASE("invalid numbers and unknown options are refused with a plain message", "[command line]") {
  CHECK(contains(refusal({"-np", "abc", "true"}), "argument -np: 'abc' is not a whole number"));
  CHECK(contains(refusal({"-np", "1", "--min-np", "x", "true"}), "argument --min-np: 'x'"));
  CHECK(contains(refusal({"-np", "1", "--cache-capacity", "x", "true"}),
                 "cache capacity (--cache-capacity) = 'x' is not a whole number"));
  CHECK(contains(refusal({"-np", "1", "--fusion-treshold-mb", "1", "true"}),
                 "did you mean '--fusion-threshold-mb'?"));
}

TEST_CASE("farandole check describes itself and takes no command", "[command line]") {
  const auto help = parse_run("farandole check", words{"--check-build", "--help"}, around());
  REQUIRE(help);
  CHECK(help->value == run_request::kind::help);
  CHECK(contains(help->text, "Usage: farandole check"));
  CHECK(contains(help->text, "the capabilities of this build"));
  CHECK(contains(help->text, "Examples:\n  farandole check\n"));
  CHECK_FALSE(contains(help->text, "-np"));
  const auto refused = parse_run("farandole check", words{"--check-build", "torch"}, around());
  REQUIRE_FALSE(refused);
  CHECK(contains(refused.error().text, "usage: farandole check [options]\n"));
  CHECK(contains(refused.error().text, "it takes no command (got: torch)"));
}

TEST_CASE("interfaces of several options are merged, and the deprecated form warns", "[command line]") {
  const auto got = parsed({"--network-interfaces", "a,b", "--network-interfaces=b,c", "--network-interface",
                           "d", "--network-interface", "a", "-np", "1", "true"});
  CHECK(got.interfaces == words{"a", "b", "c", "d"});
  CHECK(got.warnings.empty());
  CHECK(parsed({"--network-interface", "a,b", "-np", "1", "true"}).warnings.size() == 1);
}

TEST_CASE("deprecated names of the log's time work and warn", "[command line]") {
  const auto got = parsed({"--log-hide-timestamp", "-np", "1", "true"});
  CHECK(got.values.flag(setting::log_hide_time));
  CHECK(got.warnings.size() == 1);
}

TEST_CASE("prefixes of options, and long names with one dash, are understood", "[command line]") {
  const auto got = parsed({"--num-p", "1", "-prefix-timestamp", "--out", "logs", "true"});
  CHECK(got.prefix_timestamp);
  CHECK(got.output_folder == "logs");
}

TEST_CASE("a host file is read", "[command line]") {
  const file hosts("localhost slots=2\n");
  CHECK(parsed({"-np", "2", "-hostfile", hosts.path, "true"}).hosts ==
        std::vector<host_slots>{{"localhost", 2}});
  refusal({"-np", "2", "-hostfile", "/nonexistent", "true"});
}

TEST_CASE("--min-np makes a job elastic, with its bounds around -np", "[command line]") {
  const auto got = parsed({"-np", "2", "--min-np", "1", "-H", "localhost:4", "true"});
  CHECK(got.elastic);
  CHECK(got.values.flag(setting::elastic));
  CHECK(got.hosts == std::vector<host_slots>{{"localhost", 4}});
  CHECK(got.scheduler.processes == 2);
  CHECK(got.scheduler.fewest == 1);
  CHECK(got.scheduler.limit == 2);
  CHECK(got.scheduler.timeout == std::chrono::seconds(600));
  CHECK_FALSE(got.scheduler.reset_limit);
  CHECK_FALSE(got.scheduler.cooldown);
  CHECK_FALSE(parsed({"-np", "2", "true"}).elastic);
}

TEST_CASE("a discovery script makes a job elastic, and every spelling of its options is understood",
          "[command line]") {
  const file script("#!/bin/sh\necho localhost\n");
  ::chmod(script.path.c_str(), 0700);
  const auto got = parsed({"-np", "2", "--host-discovery-script", script.path, "--min-num-proc", "1",
                           "--max-num-proc", "8", "--slots", "4", "--elastic-timeout", "30", "--reset-limit",
                           "3", "--blacklist-cooldown-range", "10", "100", "true"});
  CHECK(got.elastic);
  CHECK(got.discovery_script == script.path);
  CHECK(got.hosts.empty());
  CHECK(got.slots_per_host == 4);
  CHECK(got.scheduler.limit == 8);
  CHECK(got.scheduler.timeout == std::chrono::seconds(30));
  CHECK(got.scheduler.reset_limit == 3);
  REQUIRE(got.scheduler.cooldown);
  CHECK(got.scheduler.cooldown->lowest == std::chrono::seconds(10));
  CHECK(got.scheduler.cooldown->highest == std::chrono::seconds(100));
  const auto other = parsed(
      {"-np", "2", "--host-discovery-script", script.path, "--max-np", "3", "--slots-per-host", "1", "true"});
  CHECK(other.scheduler.fewest == 2);
  CHECK(other.scheduler.limit == 3);
  CHECK(other.slots_per_host == 1);
  const auto timed = parsed({"-np", "2", "--host-discovery-script", script.path, "true"},
                            around({{"HOROVOD_ELASTIC_TIMEOUT", "7"}}));
  CHECK(timed.scheduler.timeout == std::chrono::seconds(7));
}

TEST_CASE("invalid elastic options are refused with what to do", "[command line]") {
  const auto problem = [](words options) {
    options.insert(options.begin(), {"-np", "2", "-H", "localhost:4"});
    options.emplace_back("true");
    return refusal(options);
  };
  CHECK(contains(problem({"--min-np", "0"}), "--min-np 0 is out of range: 1 to the 2 of -np"));
  CHECK(contains(problem({"--min-np", "3"}), "--min-np 3 is out of range"));
  CHECK(contains(problem({"--min-np", "1", "--max-np", "1"}), "--max-np 1 is out of range"));
  CHECK(contains(problem({"--min-np", "1", "--slots", "0"}), "--slots-per-host 0"));
  CHECK(contains(problem({"--min-np", "1", "--reset-limit", "-1"}), "--reset-limit -1"));
  CHECK(contains(problem({"--min-np", "1", "--blacklist-cooldown-range", "9", "3"}), "must not be larger"));
  problem({"--min-np", "x"});
  problem({"--host-discovery-script", "x"}); // together with -H
  CHECK(contains(refusal({"-np", "2", "--min-np", "1", "true"}), "-H localhost:2"));
  CHECK(contains(refusal({"-np", "2", "--min-np", "1", "-H", "localhost:1", "true"}), "only 1 slots"));
  CHECK(contains(refusal({"-np", "2", "--host-discovery-script", "/nonexistent", "true"}), "no file"));
  const file script("#!/bin/sh\n");
  ::chmod(script.path.c_str(), 0600);
  if (::access(script.path.c_str(), X_OK) != 0)
    CHECK(contains(refusal({"-np", "2", "--host-discovery-script", script.path, "true"}), "chmod +x"));
}

TEST_CASE("oneCCL's path is refused for an elastic job, with what to do", "[command line]") {
  const words job{"-np", "2", "--min-np", "1", "-H", "localhost:2", "true"};
  for (const std::string name : {"HOROVOD_CPU_OPERATIONS", "FARANDOLE_CPU_PATH"})
    CHECK(contains(refusal(job, around({{name, "ccl"}})), "Unset " + name));
}

TEST_CASE("paths without protection are refused before any worker is started", "[command line]") {
  const words job{"-np", "2", "-H", "localhost:2", "true"};
  CHECK(contains(refusal(job, around({{"FARANDOLE_CPU_PATH", "gloo"}})), "FARANDOLE_TRUSTED_NETWORK=1"));
  CHECK(parsed(job, around({{"FARANDOLE_CPU_PATH", "gloo"}, {"FARANDOLE_TRUSTED_NETWORK", "1"}})).processes ==
        2);
}

TEST_CASE("an elastic job may keep a journal, or have its rendezvous elsewhere", "[command line]") {
  const words job{"-np", "2", "--min-np", "1", "-H", "localhost:2"};
  const auto with = [&](words options) {
    options.insert(options.begin(), job.begin(), job.end());
    options.emplace_back("true");
    return options;
  };
  const auto secret = around({{"FARANDOLE_SECRET_FILE", "secret"}});
  CHECK(parsed(with({"--journal", "a.journal"})).journal == "a.journal");
  const auto got = parsed(with({"--rendezvous", "10.0.0.1:4711"}), secret);
  CHECK(got.rendezvous_ip == "10.0.0.1");
  CHECK(got.rendezvous_port == 4711);
  CHECK(parsed(with({"--rendezvous", "10.0.0.1:4711"}), around({{"FARANDOLE_SECRET", "secret"}}))
            .rendezvous_port == 4711);
  CHECK(parsed(with({})).rendezvous_ip.empty());
  CHECK(contains(refusal(with({"--rendezvous", "10.0.0.1:4711"})), "FARANDOLE_SECRET_FILE"));
  for (const char* wrong : {"10.0.0.1", ":4711", "10.0.0.1:0", "10.0.0.1:70000", "10.0.0.1:x", "10.0.0.1:1x"})
    CHECK(contains(refusal(with({"--rendezvous", wrong}), secret), "is no HOST:PORT"));
  CHECK(contains(refusal(with({"--rendezvous", "10.0.0.1:1", "--journal", "a"}), secret), "runs apart"));
  CHECK(
      contains(refusal({"-np", "2", "--rendezvous", "10.0.0.1:1", "true"}, secret), "needs an elastic job"));
}

TEST_CASE("elastic options of a job that is not elastic are reported as without effect", "[command line]") {
  const auto got = parsed({"-np", "1", "--max-np", "4", "--slots", "2", "--reset-limit", "1",
                           "--blacklist-cooldown-range", "1", "10", "true"});
  CHECK_FALSE(got.elastic);
  CHECK(got.warnings.size() == 4);
}
