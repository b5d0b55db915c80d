#include "tools/farandole/worker_environment.hpp"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace farandole;

namespace {

const placement second{1, "node", 1, 2, 0, 1};
const job_facts job{2, "127.0.0.1", 4711, 9, {"lo"}, 0, {}};

settings given(std::map<std::string, std::string> flags, std::map<std::string, std::string> file = {}) {
  auto result = settings::load({{}, std::move(file), std::move(flags)});
  REQUIRE(result);
  return *result;
}

std::optional<std::string> value(const std::vector<std::string>& environment, const std::string& name) {
  std::optional<std::string> found;
  for (const auto& entry : environment)
    if (entry.starts_with(name + "=")) {
      CHECK_FALSE(found); // no variable is set twice
      found = entry.substr(name.size() + 1);
    }
  return found;
}

} // namespace

TEST_CASE("a worker's environment has its place and the address of the rendezvous", "[environment]") {
  const auto got = worker_environment({}, second, job, settings::built_in());
  const std::vector<std::string> wanted = {
      "FARANDOLE_SECRET_FD=9",
      "HOROVOD_CONTROLLER=gloo",
      "HOROVOD_CROSS_RANK=0",
      "HOROVOD_CROSS_SIZE=1",
      "HOROVOD_GLOO_IFACE=lo",
      "HOROVOD_GLOO_RENDEZVOUS_ADDR=127.0.0.1",
      "HOROVOD_GLOO_RENDEZVOUS_PORT=4711",
      "HOROVOD_HOSTNAME=node",
      "HOROVOD_LOCAL_RANK=1",
      "HOROVOD_LOCAL_SIZE=2",
      "HOROVOD_RANK=1",
      "HOROVOD_SIZE=2",
      "NCCL_SOCKET_IFNAME=lo",
      "PYTHONUNBUFFERED=1",
  };
  CHECK(got == wanted);
}

TEST_CASE("the launcher's environment is passed on, except its own place in another job", "[environment]") {
  const std::vector<std::string> inherited = {"PATH=/bin",
                                              "HOROVOD_RANK=7",
                                              "FARANDOLE_SECRET_FILE=/x",
                                              "FARANDOLE_SECRET=of another job",
                                              "FARANDOLE_MEMBER_ADDRESS=10.0.0.9",
                                              "ODD",
                                              "HOROVOD_CPU_OPERATIONS=mpi"};
  const auto got = worker_environment(inherited, second, job, settings::built_in());
  CHECK(value(got, "PATH") == "/bin");
  CHECK(value(got, "HOROVOD_RANK") == "1");
  CHECK(value(got, "HOROVOD_CPU_OPERATIONS") == "mpi");
  CHECK_FALSE(value(got, "FARANDOLE_SECRET_FILE"));
  CHECK_FALSE(value(got, "FARANDOLE_SECRET"));
  CHECK_FALSE(value(got, "FARANDOLE_MEMBER_ADDRESS"));
  CHECK(std::find(got.begin(), got.end(), "ODD") != got.end());
}

TEST_CASE("a worker gets the address that the launcher has chosen for it", "[environment]") {
  auto chosen = job;
  chosen.own_address = "10.0.0.2";
  CHECK(value(worker_environment({}, second, chosen, settings::built_in()), "FARANDOLE_MEMBER_ADDRESS") ==
        "10.0.0.2");
}

TEST_CASE("variables that tell MPI and oneCCL which cores to use are passed on", "[environment]") {
  const std::vector<std::string> inherited = {"CCL_WORKER_COUNT=2", "CCL_WORKER_AFFINITY=4,5",
                                              "I_MPI_PIN_DOMAIN=socket",
                                              "I_MPI_PIN_PROCESSOR_EXCLUDE_LIST=0"};
  const auto got = worker_environment(inherited, second, job, settings::built_in());
  for (const auto& entry : inherited)
    CHECK(std::find(got.begin(), got.end(), entry) != got.end());
}

TEST_CASE("flags and the config file reach the workers in the variables' own units", "[environment]") {
  const auto got =
      worker_environment(std::vector<std::string>{"HOROVOD_FUSION_THRESHOLD=1"}, second, job,
                         given({{"--fusion-threshold-mb", "2"}, {"--no-stall-check", "1"}},
                               {{"params.cycle_time_ms", "3.5"}, {"logging.with_timestamp", "0"}}));
  CHECK(value(got, "HOROVOD_FUSION_THRESHOLD") == "2097152");
  CHECK(value(got, "HOROVOD_STALL_CHECK_DISABLE") == "1");
  CHECK(value(got, "HOROVOD_CYCLE_TIME") == "3.5");
  CHECK(value(got, "HOROVOD_LOG_HIDE_TIME") == "1");
}

TEST_CASE("variables of settings that were not given are not set", "[environment]") {
  const auto got = worker_environment({}, second, job, settings::built_in());
  CHECK_FALSE(value(got, "HOROVOD_FUSION_THRESHOLD"));
  CHECK_FALSE(value(got, "HOROVOD_ELASTIC"));
  CHECK_FALSE(value(got, "FARANDOLE_MAX_NP"));
  CHECK_FALSE(value(got, "HOROVOD_AUTOTUNE"));
}

TEST_CASE("workers of an elastic job get the limit of workers and the reset limit", "[environment]") {
  auto elastic = job;
  elastic.limit = 8;
  auto got = worker_environment({}, second, elastic, settings::built_in());
  CHECK(value(got, "FARANDOLE_MAX_NP") == "8");
  CHECK_FALSE(value(got, "FARANDOLE_RESET_LIMIT"));
  elastic.reset_limit = 0;
  CHECK(value(worker_environment({}, second, elastic, settings::built_in()), "FARANDOLE_RESET_LIMIT") == "0");
}

TEST_CASE("a disabled tuner is not in the environment, and neither is its log", "[environment]") {
  const std::vector<std::string> inherited = {"HOROVOD_AUTOTUNE=1"};
  auto got = worker_environment(inherited, second, job,
                                given({{"--no-autotune", "1"}, {"--autotune-log-file", "x"}}));
  CHECK_FALSE(value(got, "HOROVOD_AUTOTUNE"));
  CHECK_FALSE(value(got, "HOROVOD_AUTOTUNE_LOG"));
  got = worker_environment({}, second, job, given({{"--autotune", "1"}, {"--autotune-log-file", "x"}}));
  CHECK(value(got, "HOROVOD_AUTOTUNE") == "1");
  CHECK(value(got, "HOROVOD_AUTOTUNE_LOG") == "x");
}

TEST_CASE("cycle marks are set only with a timeline", "[environment]") {
  CHECK_FALSE(value(worker_environment({}, second, job, given({{"--timeline-mark-cycles", "1"}})),
                    "HOROVOD_TIMELINE_MARK_CYCLES"));
  const auto got = worker_environment({}, second, job,
                                      given({{"--timeline-mark-cycles", "1"}, {"--timeline-filename", "t"}}));
  CHECK(value(got, "HOROVOD_TIMELINE_MARK_CYCLES") == "1");
  CHECK(value(got, "HOROVOD_TIMELINE") == "t");
}

TEST_CASE("on request, workers get the number of threads for each, unless it was set before",
          "[environment]") {
  auto wide = job;
  wide.cores = 8;
  const auto wanted = given({{"--set-omp-num-threads", "1"}});
  CHECK(value(worker_environment({}, second, wide, wanted), "OMP_NUM_THREADS") == "4");
  CHECK_FALSE(value(worker_environment({}, second, wide, settings::built_in()), "OMP_NUM_THREADS"));
  const std::vector<std::string> inherited = {"OMP_NUM_THREADS=3"};
  CHECK(value(worker_environment(inherited, second, wide, wanted), "OMP_NUM_THREADS") == "3");
  wide.limit = 8;
  CHECK(value(worker_environment({}, second, wide, wanted), "OMP_NUM_THREADS") == "1");
  CHECK(value(worker_environment({}, second, wide, given({}, {{"library_options.set_omp_num_threads", "1"}})),
              "OMP_NUM_THREADS") == "1");
}

TEST_CASE("of several interfaces, sockets use the first and NCCL all", "[environment]") {
  auto wide = job;
  wide.interfaces = {"eth0", "eth1"};
  wide.tcp_only = true;
  const auto got = worker_environment({}, second, wide, settings::built_in());
  CHECK(value(got, "HOROVOD_GLOO_IFACE") == "eth0");
  CHECK(value(got, "NCCL_SOCKET_IFNAME") == "eth0,eth1");
  CHECK(value(got, "NCCL_IB_DISABLE") == "1");
}

TEST_CASE("mpirun gets the settings, and neither a place in another job nor a controller", "[environment]") {
  const std::vector<std::string> inherited = {"PATH=/bin",
                                              "HOROVOD_RANK=7",
                                              "HOROVOD_GLOO_RENDEZVOUS_ADDR=x",
                                              "FARANDOLE_SECRET_FILE=/secret",
                                              "FARANDOLE_SECRET_FD=9",
                                              "FARANDOLE_RECORDER_FD=10"};
  const auto values = given({{"--cache-capacity", "77"}}, {{"controller", "mpi"}});
  CHECK(environment_without_place(inherited, values, {}, false) ==
        std::vector<std::string>{"PATH=/bin", "FARANDOLE_SECRET_FILE=/secret", "HOROVOD_CACHE_CAPACITY=77"});
  const std::vector<std::string> interfaces{"eth0", "eth1"}, networks{"10.0.0.0/8"};
  const auto wide = environment_without_place({}, settings::built_in(), interfaces, true);
  CHECK(wide == std::vector<std::string>{"HOROVOD_GLOO_IFACE=eth0", "NCCL_IB_DISABLE=1",
                                         "NCCL_SOCKET_IFNAME=eth0,eth1"});
  CHECK(environment_without_place({}, settings::built_in(), networks, false).empty());
  const std::vector<std::string> both{"eth0", "10.0.0.0/8"}, own{"NCCL_SOCKET_IFNAME=ib0"};
  CHECK(environment_without_place(own, settings::built_in(), both, false) ==
        std::vector<std::string>{"NCCL_SOCKET_IFNAME=ib0", "HOROVOD_GLOO_IFACE=eth0"});
}

TEST_CASE("an environment without secrets neither holds nor names one", "[environment]") {
  const std::vector<std::string> inherited = {"FARANDOLE_SECRET_FILE=/secret", "A=1", "FARANDOLE_SECRET=text",
                                              "FARANDOLE_SECRETS=2"};
  CHECK(without_secrets(inherited) == std::vector<std::string>{"A=1", "FARANDOLE_SECRETS=2"});
}

TEST_CASE("mpirun exports all variables but those of the launcher's own host and shell", "[environment]") {
  const std::vector<std::string> own = {"PATH=/bin",
                                        "BASH_FUNC_f%%=() { :; }",
                                        "OLDPWD=/",
                                        "odd name=1",
                                        "CUDA_VISIBLE_DEVICES=0",
                                        "_HOROVOD_SECRET_KEY=x",
                                        "FARANDOLE_SECRET_FILE=/secret",
                                        "FARANDOLE_SECRET_FD=9",
                                        "FARANDOLE_RECORDER_FD=10",
                                        "a_1="};
  CHECK(exported_names(own) == std::vector<std::string>{"PATH", "FARANDOLE_SECRET_FILE", "a_1"});
}
