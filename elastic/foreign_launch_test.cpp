#include <catch2/catch.hpp>

#include "elastic/foreign_launch.hpp"
#include "messages/settings/environment_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

/// The launcher with rank and size, such as "mpirun of Open MPI 1/3", or "none".
std::string launch_in(const variables& set) {
  const auto found = find_foreign_launch(environment_of(set));
  if (!found)
    return "none";
  return std::string(found->launcher) + " " + std::to_string(found->rank) + "/" + std::to_string(found->size);
}

const variables torchrun = {{"RANK", "1"},
                            {"WORLD_SIZE", "4"},
                            {"MASTER_ADDR", "node0"},
                            {"MASTER_PORT", "29500"},
                            {"TORCHELASTIC_RUN_ID", "none"}};

variables operator+(variables a, const variables& b) {
  a.insert(b.begin(), b.end());
  return a;
}

} // namespace

TEST_CASE("the variables of every launcher give a process's rank and size", "[foreign_launch]") {
  CHECK(launch_in({}) == "none");
  CHECK(launch_in({{"OMPI_COMM_WORLD_SIZE", "3"}, {"OMPI_COMM_WORLD_RANK", "1"}}) ==
        "mpirun of Open MPI 1/3");
  CHECK(launch_in({{"MV2_COMM_WORLD_SIZE", "2"}, {"MV2_COMM_WORLD_RANK", "0"}}) == "mpirun of MVAPICH 0/2");
  CHECK(launch_in({{"JSM_NAMESPACE_SIZE", "6"}, {"JSM_NAMESPACE_RANK", "5"}}) == "jsrun 5/6");
  CHECK(launch_in({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}) == "mpirun of MPICH or Intel MPI, or srun 1/2");
  CHECK(launch_in({{"PMIX_RANK", "1"}}) == "a launcher that speaks PMIx 1/0");
  CHECK(launch_in(torchrun) == "torchrun 1/4");
  CHECK(launch_in({{"RANK", "1"}, {"WORLD_SIZE", "2"}}) == "the environment 1/2");
  CHECK(launch_in({{"HOROVOD_RANK", "1"}, {"HOROVOD_SIZE", "2"}}) == "the environment 1/2");
  CHECK(launch_in({{"HOROVOD_SIZE", "2"}}) == "the environment -1/2");
}

TEST_CASE("variables that describe no place in a job are ignored", "[foreign_launch]") {
  CHECK(launch_in({{"PMI_SIZE", "many"}, {"PMI_RANK", "1"}}) == "none");
  CHECK(launch_in({{"PMI_SIZE", "0"}}) == "none");
  CHECK(launch_in({{"WORLD_SIZE", "2"}}) == "none"); // RANK is not set
  CHECK(launch_in({{"SLURM_NTASKS", "2"}}) == "none");
  // A script that imports mpi4py and was started without a launcher.
  CHECK(launch_in({{"PMIX_RANK", "0"}, {"OMPI_MCA_ess", "singleton"}}) == "none");
}

TEST_CASE("Slurm counts in a step of several tasks, not in a batch script", "[foreign_launch]") {
  const variables step = {{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "2"}, {"SLURM_STEP_ID", "0"}};
  const std::string batch_script = "4294967291", interactive = "4294967290";
  CHECK(launch_in(step) == "srun 2/4");
  CHECK(launch_in(step + variables{{"SLURM_STEP_NUM_TASKS", "3"}}) == "srun 2/3");
  CHECK(launch_in(step + variables{{"PMIX_RANK", "2"}}) == "srun --mpi=pmix 2/4");
  CHECK(find_foreign_launch(environment_of(step + variables{{"PMIX_RANK", "2"}}))->starts_mpi);
  CHECK(launch_in({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}) == "none");
  for (const auto& pseudo : {batch_script, interactive})
    CHECK(launch_in({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", pseudo}}) == "none");
}

TEST_CASE("a job is found by the process manager that the launcher offers", "[foreign_launch]") {
  const auto found = [](const variables& set) { return find_foreign_launch(environment_of(set)).value(); };
  const variables mpich = {{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}};
  const variables open_mpi = {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}};
  const variables pmi = {{"PMI_FD", "7"}}, pmix = {{"PMIX_NAMESPACE", "job@1"}, {"PMIX_RANK", "1"}};
  CHECK(found(mpich + pmi).by == gathering::pmi);
  CHECK(found(mpich + pmi).channel == "7");
  CHECK(found(mpich + pmi).has_process_manager());
  CHECK(found(open_mpi + pmix).by == gathering::pmix);
  CHECK(found(open_mpi + pmix).channel == "job@1");
  CHECK(found(pmix).by == gathering::pmix);
  // The descriptor of a surrounding launcher says nothing about the processes of mpirun.
  CHECK(found(open_mpi + pmi).by == gathering::nothing);
  for (const auto& without : {mpich, open_mpi, mpich + variables{{"PMI_FD", ""}}}) {
    CHECK(found(without).by == gathering::nothing);
    CHECK_FALSE(found(without).has_process_manager());
    CHECK(found(without).starts_mpi);
  }
  const variables step = {{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "2"}, {"SLURM_STEP_ID", "0"}};
  CHECK(found(step).by == gathering::nothing);
  CHECK_FALSE(found(step).starts_mpi);
  CHECK_THAT(found(step).advice(), Catch::Contains("srun --mpi=pmi2"));
}

TEST_CASE("the innermost of several launchers counts", "[foreign_launch]") {
  const variables step = {{"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}};
  const variables open_mpi = {
      {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"PMIX_RANK", "0"}};
  const variables alone = {{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"PMIX_RANK", "0"}};
  CHECK(launch_in(torchrun + step + open_mpi) == "torchrun 1/4");
  CHECK(launch_in(open_mpi + step) == "mpirun of Open MPI 0/2");
  CHECK(launch_in(alone) == "mpirun of Open MPI 0/1");
  CHECK(launch_in(alone + step) == "srun --mpi=pmix 0/2");
  CHECK(launch_in(alone + variables{{"HOROVOD_SIZE", "2"}}) == "the environment -1/2");
  // A script under mpirun that sets torch's variables itself still counts as started by mpirun.
  auto by_hand = torchrun;
  by_hand.erase("TORCHELASTIC_RUN_ID");
  CHECK(launch_in(by_hand + open_mpi) == "mpirun of Open MPI 0/2");
}

TEST_CASE("a job joins at torch's store unless it has a rendezvous or HOROVOD_SIZE=1", "[foreign_launch]") {
  const auto joins = [](const variables& set) {
    return torch_store_launch(environment_of(set), settings_of(set)).has_value();
  };
  CHECK(joins(torchrun));
  auto by_hand = torchrun;
  by_hand.erase("TORCHELASTIC_RUN_ID");
  CHECK(joins(by_hand));
  CHECK_FALSE(joins({{"RANK", "1"}, {"WORLD_SIZE", "2"}}));
  CHECK_FALSE(joins(variables{{"WORLD_SIZE", "1"}, {"RANK", "0"}} + torchrun));
  CHECK_FALSE(joins(torchrun + variables{{"HOROVOD_SIZE", "1"}}));
  CHECK_FALSE(joins(torchrun + variables{{"HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1"}}));
}

TEST_CASE("a job of another size than the launcher's is refused with both sizes", "[foreign_launch]") {
  const auto objection = [](const variables& set, std::int32_t rank, std::int32_t size) {
    const auto launch = find_foreign_launch(environment_of(set));
    REQUIRE(launch);
    return objection_to_job(*launch, rank, size).text;
  };
  const variables mpich = {{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}};
  CHECK(objection(mpich, 1, 2).empty());
  const auto text = objection(mpich, 0, 1);
  CHECK_THAT(text, Catch::Contains("mpirun of MPICH or Intel MPI, or srun (PMI_RANK, PMI_SIZE)"));
  CHECK_THAT(text, Catch::Contains("rank 1 of 2,") && Catch::Contains("rank 0 of 1:") &&
                       Catch::Contains("horovodrun -np N"));
  CHECK_THAT(text, Catch::Contains("HOROVOD_SIZE=1"));
  const variables pmix = {{"PMIX_RANK", "0"}};
  CHECK(objection(pmix, 0, 2).empty());
  CHECK_THAT(objection(pmix, 0, 1), Catch::Contains("rank 0 of a job of unknown size"));
}

TEST_CASE("HOROVOD_SIZE=1 marks a process as meant to be alone", "[foreign_launch]") {
  CHECK(is_meant_to_be_alone(settings_of({{"HOROVOD_SIZE", "1"}})));
  CHECK_FALSE(is_meant_to_be_alone(settings_of({{"HOROVOD_SIZE", "2"}})));
  CHECK_FALSE(is_meant_to_be_alone(settings::built_in()));
}

TEST_CASE("the place of a process depends only on variables that launchers set", "[foreign_launch]") {
  const auto place = [](const variables& set) { return place_in_environment(environment_of(set)); };
  CHECK(place(torchrun) == place(torchrun + variables{{"OMP_NUM_THREADS", "1"}, {"HOME", "/"}}));
  for (const auto* name : {"RANK", "HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK",
                           "JSM_NAMESPACE_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "MASTER_PORT",
                           "HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"}) {
    INFO(name);
    CHECK(place({{name, "0"}}) != place({{name, "1"}}));
    CHECK(place({{name, "0"}}) != place({}));
  }
}

TEST_CASE("a rank or size beyond 32 bits is not truncated to a valid one", "[foreign_launch]") {
  // The values are 2^32 + 1 and 2^32 + 2.
  CHECK(launch_in({{"OMPI_COMM_WORLD_RANK", "4294967297"}, {"OMPI_COMM_WORLD_SIZE", "4"}}) ==
        "mpirun of Open MPI -1/4");
  CHECK(launch_in({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4294967298"}}) == "none");
}

TEST_CASE("without a rank, a size counts only if no other program sets that variable", "[foreign_launch]") {
  CHECK(launch_in({{"OMPI_COMM_WORLD_SIZE", "3"}}) == "mpirun of Open MPI -1/3");
  CHECK(launch_in({{"MV2_COMM_WORLD_SIZE", "3"}}) == "mpirun of MVAPICH -1/3");
  CHECK(launch_in({{"JSM_NAMESPACE_SIZE", "3"}}) == "jsrun -1/3");
  CHECK(launch_in({{"PMI_SIZE", "3"}}) == "mpirun of MPICH or Intel MPI, or srun -1/3");
  CHECK(launch_in({{"WORLD_SIZE", "3"}}) == "none");
}

TEST_CASE("a rank must be a whole number that is not negative", "[foreign_launch]") {
  for (const auto* text : {"1x", "-1", "x", "", "99999999999999999999"})
    CHECK(launch_in({{"PMIX_RANK", text}}) == "none");
  CHECK(launch_in({{"PMIX_RANK", "0"}}) == "a launcher that speaks PMIx 0/0");
}

TEST_CASE("empty variables, and Slurm's pseudo-steps, do not count as a launcher", "[foreign_launch]") {
  CHECK(launch_in({{"SLURM_STEP_ID", ""}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}) == "none");
  CHECK(launch_in({{"SLURM_STEP_ID", "4294967279"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}) ==
        "srun 0/2");
  CHECK(launch_in({{"SLURM_STEP_ID", "4294967280"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}) == "none");
}
