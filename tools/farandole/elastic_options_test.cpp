#include "tools/farandole/elastic_options.hpp"

#include <catch2/catch.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include "tools/farandole/command_line_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

TEST_CASE("--min-np makes a job elastic, with its bounds around -np", "[elastic options]") {
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

TEST_CASE("a session is elastic, and may get any number of workers unless there is a maximum",
          "[elastic options]") {
  auto got = parsed({"--session", "--call-descriptor", "5", "--min-np", "1", "-np", "2", "true"});
  CHECK(got.elastic);
  CHECK(got.scheduler.serves_calls);
  CHECK(got.scheduler.limit == most_slots);
  CHECK(got.hosts == std::vector<host_slots>{{"localhost", most_slots}});
  got = parsed({"--session", "--call-descriptor", "5", "--max-np", "3", "-np", "2", "true"});
  CHECK(got.scheduler.limit == 3);
  CHECK(got.hosts == std::vector<host_slots>{{"localhost", 3}});
  CHECK(contains(refusal({"--session", "-np", "2", "true"}), "farandole.session()"));
  CHECK(contains(refusal({"--session", "--call-descriptor", "5", "--rendezvous", "h:1", "-np", "2", "true"}),
                 "a rendezvous of its own"));
}

TEST_CASE("a discovery script makes a job elastic, and every spelling of its options is understood",
          "[elastic options]") {
  const file script("#!/bin/sh\necho localhost\n");
  ::chmod(script.path.c_str(), 0700);
  const auto got = parsed({"-np", "2", "--host-discovery-script", script.path, "--min-num-proc", "1",
                           "--max-num-proc", "8", "--slots", "4", "--elastic-timeout", "30", "--reset-limit",
                           "3", "--blacklist-cooldown-range", "10", "100", "true"});
  CHECK(got.elastic);
  CHECK(got.discovery_script == script.path);
  CHECK(parsed({"-np", "2", "--host-discovery-script", "./hosts.sh --region 'eu west'", "true"})
            .discovery_script == "./hosts.sh --region 'eu west'");
  const file spaced("#!/bin/sh\n", "farandole test XXXXXX");
  ::chmod(spaced.path.c_str(), 0700);
  CHECK(parsed({"-np", "2", "--host-discovery-script", spaced.path, "true"}).discovery_script == spaced.path);
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

TEST_CASE("invalid elastic options are refused with what to do", "[elastic options]") {
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

TEST_CASE("oneCCL's path is refused for an elastic job, with what to do", "[elastic options]") {
  const words job{"-np", "2", "--min-np", "1", "-H", "localhost:2", "true"};
  for (const std::string name : {"HOROVOD_CPU_OPERATIONS", "FARANDOLE_CPU_PATH"})
    CHECK(contains(refusal(job, around({{name, "ccl"}})), "Unset " + name));
}

TEST_CASE("an elastic job may keep a journal, or have its rendezvous elsewhere", "[elastic options]") {
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
  CHECK(contains(refusal(with({"--rendezvous", "10.0.0.1:1", "--journal", "a"}), secret),
                 "--journal and --rendezvous exclude each other"));
  CHECK(
      contains(refusal({"-np", "2", "--rendezvous", "10.0.0.1:1", "true"}, secret), "needs an elastic job"));
}

TEST_CASE("elastic options of a job that is not elastic are reported as without effect",
          "[elastic options]") {
  const auto got = parsed({"-np", "1", "--max-np", "4", "--slots", "2", "--elastic-timeout", "9",
                           "--reset-limit", "1", "--blacklist-cooldown-range", "1", "10", "true"});
  CHECK_FALSE(got.elastic);
  REQUIRE(got.warnings.size() == 5);
  CHECK(got.warnings[2] ==
        "WARNING: --elastic-timeout has no effect: only --min-np or --host-discovery-script make a "
        "job elastic");
}
