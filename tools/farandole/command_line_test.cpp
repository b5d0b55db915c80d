#include "tools/farandole/command_line.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <sstream>

#include "tools/farandole/command_line_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

TEST_CASE("processes, hosts and the command are taken from the command line", "[command line]") {
  const auto got = parsed({"-np", "2", "-H", "localhost:4", "python", "train.py", "--verbose"});
  CHECK(got.value == run_request::kind::run);
  CHECK(got.processes == 2);
  CHECK(got.hosts == std::vector<host_slots>{{"localhost", 4}});
  CHECK(got.command == words{"python", "train.py", "--verbose"});
  CHECK_FALSE(got.verbose);
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
      CHECK(contains(refusal({"-np", "1", std::string(row.flag), std::string(row.flag_off), "true"}),
                     std::string(row.flag) + " and " + std::string(row.flag_off) + " exclude each other"));
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
    CHECK(got.warnings[0] == "WARNING: config file " + config.path + ", line 4: there is no setting 'odd'");
  }
}

TEST_CASE("values out of range are refused with name, value and range", "[command line]") {
  CHECK(contains(refusal({"-np", "1", "--cycle-time-ms", "-1", "true"}),
                 "cycle time (--cycle-time-ms) = '-1' is out of range: 0 to"));
  CHECK(contains(refusal({"-np", "1", "--autotune-gaussian-process-noise", "2", "true"}), "0 to 1"));
  CHECK(contains(refusal({"-np", "0", "true"}), "-np 0 is out of range"));
  for (const char* rank : {"-1", "2"})
    CHECK(contains(refusal({"-np", "2", std::string("--stdin=") + rank, "true"}),
                   std::string("--stdin ") + rank +
                       ": the job starts with 2 workers (-np); give one of 0 to 1"));
  CHECK(parsed({"-np", "4", "--stdin", "3", "true"}).input_rank == 3);
  CHECK(parsed({"-np", "4", "true"}).input_rank == -1);
  refusal({"-np", "two", "true"});
  refusal({"-np", "1", "--blacklist-cooldown-range", "0", "5", "true"});
  refusal({"-np", "1", "--thread-affinity", "1,x", "true"});
  const file config("library_options:\n  thread_affinity: 1,x\n");
  CHECK(contains(refusal({"-np", "1", "--config-file", config.path, "true"}),
                 "config file " + config.path +
                     ", line 2: thread affinity (library_options.thread_affinity) = '1,x'"));
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

TEST_CASE("help tells defaults and possible values, and hides the options between programs",
          "[command line]") {
  const auto lines = parsed({"--help"}).text;
  std::string help; // without the breaks of lines
  std::istringstream in(lines);
  for (std::string word; in >> word;)
    help += word + " ";
  CHECK(contains(help,
                 "Values: trace, debug, info, warning, error, fatal. (default: warning; HOROVOD_LOG_LEVEL)"));
  CHECK(contains(help, "(default: 128; HOROVOD_FUSION_THRESHOLD)"));
  CHECK(contains(help, "(default: 30 s; HOROVOD_START_TIMEOUT)"));
  CHECK(contains(help, "(HOROVOD_TIMELINE)"));
  for (const char* name : {"--call-descriptor", "--caller-address", "--session", "--mpi-version",
                           "--mpi-flags", "--mpi-large-cluster", "--print-rank-file"})
    CHECK_FALSE(contains(help, name));
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

TEST_CASE("mpirun is used where it is asked for, and jsrun also by default in a job of LSF that has it",
          "[command line]") {
  const auto lsf = around({{"LSB_JOBID", "1"}, {"LSB_MCPU_HOSTS", "b 2"}}, true);
  const file config("controller: mpi\n");
  CHECK(parsed({"-np", "1", "true"}).mode == launch_mode::agents);
  CHECK(parsed({"-np", "1", "--mpi", "true"}).mode == launch_mode::mpirun);
  CHECK(parsed({"-np", "1", "--config-file", config.path, "true"}).mode == launch_mode::mpirun);
  CHECK(parsed({"-np", "1", "--config-file", config.path, "--gloo", "true"}).mode == launch_mode::agents);
  CHECK(parsed({"-np", "1", "--jsrun", "true"}, lsf).mode == launch_mode::jsrun);
  CHECK(parsed({"-np", "1", "true"}, lsf).mode ==
        launch_mode::agents); // nothing tells jsrun the CPUs of each rank
  CHECK(parsed({"-np", "1", "--binding-args=-r 2", "true"}, lsf).mode == launch_mode::jsrun);
  const auto with_csm =
      around({{"LSB_JOBID", "1"}, {"LSB_MCPU_HOSTS", "b 2"}, {"CSM_ALLOCATION_ID", "42"}}, true);
  CHECK(parsed({"-np", "1", "-H", "b:2", "true"}, with_csm).mode == launch_mode::jsrun);
  CHECK(parsed({"-np", "1", "-H", "b:2", "--gloo", "true"}, with_csm).mode == launch_mode::agents);
  CHECK(parsed({"-np", "1", "--mpi", "true"}, lsf).mode == launch_mode::mpirun);
  CHECK(parsed({"-np", "1", "--min-np", "1", "true"}, lsf).mode == launch_mode::agents);
  CHECK(contains(refusal({"-np", "1", "--jsrun", "true"}), "LSB_JOBID is not set"));
}

TEST_CASE("mpirun and jsrun are refused for jobs whose processes change, with both names", "[command line]") {
  const auto lsf = around({{"LSB_JOBID", "1"}, {"LSB_MCPU_HOSTS", "b 2"}}, true);
  const file config("controller: mpi\n");
  const std::pair<words, std::string> modes[] = {
      {{"--mpi"}, "--mpi"},
      {{"--jsrun"}, "--jsrun"},
      {{"--config-file", config.path}, "'controller: mpi' in the config file"}};
  const std::pair<words, std::string> others[] = {
      {{"--min-np", "1"}, "--min-np"},
      {{"--host-discovery-script", "/bin/true"}, "--host-discovery-script"},
      {{"--agents", "1"}, "--agents"},
      {{"--rendezvous", "a:1"}, "--rendezvous"}};
  for (const auto& [mode, mode_name] : modes)
    for (const auto& [other, other_name] : others) {
      words given{"-np", "1"};
      given.insert(given.end(), mode.begin(), mode.end());
      given.insert(given.end(), other.begin(), other.end());
      given.emplace_back("true");
      CHECK(contains(refusal(given, lsf), mode_name + " and " + other_name + " exclude each other"));
    }
  CHECK(contains(refusal({"--mpi", "--stdin", "1", "-np", "2", "true"}, lsf),
                 "--mpi and --stdin exclude each other: mpirun and jsrun decide themselves"));
  CHECK(parsed({"--mpi", "--stdin", "1", "-np", "2", "--call-descriptor", "9", "true"}, lsf).input_rank == 1);
  CHECK(parsed({"--stdin", "1", "-np", "2", "true"}, lsf).mode ==
        launch_mode::agents); // though jsrun is there
  for (const words& pair :
       {words{"--gloo", "--mpi"}, words{"--gloo", "--jsrun"}, words{"--mpi", "--jsrun"}}) {
    words given{"-np", "1", pair[0], pair[1], "true"};
    const auto text = refusal(given, lsf);
    CHECK(contains(text, pair[0]));
    CHECK(contains(text, pair[1]));
  }
}

TEST_CASE("of two options that contradict each other, the error names both", "[command line]") {
  const file hosts("b slots=2\n");
  const words options[] = {
      {"-H", "b:2"}, // the first word of each is its name
      {"--hostfile", hosts.path},
      {"--host-discovery-script", "/bin/true"},
      {"--agents", "2"},
      {"--remote-hosts", "b"},
      {"--min-np", "1"},
      {"--max-np", "4", "--min-np", "2"},
      {"--journal", "a", "--min-np", "2"},
      {"--rendezvous", "a:1", "--min-np", "2"},
      {"--session", "--call-descriptor", "5"},
      {"--caller-address", "10.0.0.1", "--call-descriptor", "5"},
      {"--stdin", "1"},
      {"--gloo"},
      {"--mpi"},
      {"--jsrun"},
      {"--print-command", "--mpi"},
      {"--output-filename", "logs"},
      {"--network-interfaces", "eth0"},
      {"-p", "22"},
      {"--check-build"},
      {"--log-without-timestamp"},
      {"--log-with-timestamp"},
  };
  const auto in_lsf =
      around({{"LSB_JOBID", "1"}, {"LSB_MCPU_HOSTS", "b 4"}, {"FARANDOLE_SECRET_FILE", "secret"}}, true);
  const auto names_one_of = [](const std::string& text, const words& option) {
    return std::any_of(option.begin(), option.end(), [&](const std::string& word) {
      return word.starts_with("-") &&
             contains(text.substr(text.find("error: ")), word == "-H" ? "--hosts" : word);
    });
  };
  std::size_t contradictions = 0;
  for (const auto& first : options)
    for (const auto& second : options) {
      words given{"-np", "2"};
      given.insert(given.end(), first.begin(), first.end());
      if (&first != &second)
        given.insert(given.end(), second.begin(), second.end());
      given.emplace_back("true");
      const auto result = parse_run("horovodrun", given, in_lsf);
      INFO(first.front() << " and " << second.front() << ": " << (result ? "" : result.error().text));
      CHECK((result || (&first != &second && names_one_of(result.error().text, first) &&
                        names_one_of(result.error().text, second))));
      contradictions += result ? 0 : 1;
    }
  CHECK(contradictions >= 50);
  CHECK(contains(refusal({"-np", "2", "--agents", "2", "--rendezvous", "a:1", "true"}, in_lsf),
                 "--rendezvous with --agents needs an elastic job: give --min-np"));
}

TEST_CASE("arguments for mpirun are kept, and without mpirun reported as without effect", "[command line]") {
  const words options{"--binding-args", "x", "--mpi-args=-x B", "--mpi-args=-x A", "-np", "1", "true"};
  auto got = parsed(options);
  CHECK(got.warnings ==
        words{"WARNING: --mpi-args has no effect: only --mpi and --jsrun start the processes by MPI",
              "WARNING: --binding-args has no effect: only --mpi and --jsrun start the processes by "
              "MPI"});
  auto by_mpi = options;
  by_mpi.insert(by_mpi.begin(), "--mpi");
  got = parsed(by_mpi);
  CHECK(got.warnings.empty());
  CHECK(got.binding_args == "x");
  CHECK(got.mpi_args == "-x A");
  CHECK_FALSE(got.print_command);
  CHECK(parsed({"--mpi", "--print-command", "-np", "1", "true"}).print_command);
  CHECK(contains(refusal({"--print-command", "-np", "1", "true"}), "--mpi"));
  CHECK(contains(refusal({"--jsrun", "--print-command", "-np", "1", "true"}), "--binding-args"));
  CHECK(parsed({"--jsrun", "--binding-args=-r 2", "--print-command", "-np", "1", "true"}).mode ==
        launch_mode::jsrun); // also outside of LSF
  CHECK(parsed({"--print-rank-file", "8", "-np", "1", "true"}).rank_file_cpus == 8);
}

TEST_CASE("a caller that starts the workers gives an address, a channel and a secret", "[command line]") {
  const auto with_secret = around({{"FARANDOLE_SECRET_FILE", "secret"}});
  const words by_caller{"--caller-address", "10.0.0.1", "--call-descriptor", "3", "-np", "2", "true"};
  CHECK(parsed(by_caller, with_secret).caller_address == "10.0.0.1");
  CHECK(contains(refusal(by_caller), "--caller-address 10.0.0.1 is for programs"));
  auto by_mpi = by_caller;
  by_mpi.insert(by_mpi.begin(), "--mpi"); // its secret is a new one
  CHECK(parsed(by_mpi).caller_address == "10.0.0.1");
  CHECK(contains(refusal({"--caller-address", "10.0.0.1", "-np", "2", "true"}, with_secret),
                 "needs --call-descriptor"));
  const words with_agents{
      "--caller-address", "10.0.0.1", "--call-descriptor", "3", "--agents", "2", "-np", "2", "true"};
  const auto by_variable = around({{"FARANDOLE_SECRET", "0123456789abcdef0123456789abcdef"}});
  CHECK(parsed(with_agents, by_variable).fewest_agents == 2);
  CHECK(contains(refusal(with_agents), "--agents needs a secret"));
}

TEST_CASE("settings without effect are named in the same warning, from any source", "[command line]") {
  const file config("autotune:\n  warmup_samples: 1\n");
  const auto got = parsed({"--autotune", "--config-file", config.path, "-np", "1", "true"},
                          around({{"HOROVOD_CCL_CACHE", "1"}}));
  CHECK(got.warnings == words{"WARNING: --autotune, HOROVOD_CCL_CACHE and "
                              "autotune.warmup_samples (config file) have no effect in this build"});
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

TEST_CASE("paths without protection are refused before any worker is started", "[command line]") {
  const words job{"-np", "2", "-H", "localhost:2", "true"};
  CHECK(contains(refusal(job, around({{"FARANDOLE_CPU_PATH", "gloo"}})), "FARANDOLE_TRUSTED_NETWORK=1"));
  CHECK(parsed(job, around({{"FARANDOLE_CPU_PATH", "gloo"}, {"FARANDOLE_TRUSTED_NETWORK", "1"}})).processes ==
        2);
}
