#include "elastic/foreign_launch.hpp"

#include <charconv>
#include <initializer_list>
#include <limits>
#include <set>
#include <vector>

namespace farandole {
namespace {

/// One way in which a launcher describes its processes. Variables that are alternatives of each other stand
/// in order of preference.
struct launcher_row {
  std::string_view launcher;
  std::string_view rank_variable;
  std::vector<std::string_view> size_variables;
  std::vector<std::string_view> also_set; ///< the row applies only where all of these are set, too
  gathering by;
  std::string_view remedy;
  bool starts_mpi = false;
  bool size_suffices = false;    ///< the row applies without a rank, too
  std::string_view not_set = {}; ///< the row applies only where this is not set
};

constexpr std::string_view any_launcher =
    "start the job with `mpirun -np N python …` of Open MPI, MPICH or Intel MPI, with `srun --mpi=pmi2 "
    "python …`, with "
    "`torchrun --nproc-per-node N …`, or, on one host, with `horovodrun -np N python …`";
constexpr std::string_view in_slurm =
    "start the job with `srun --mpi=pmi2 python …`, with `srun --mpi=pmix python …`, with `mpirun -np N "
    "python …` "
    "inside the allocation, with torchrun, or, on one host, with `srun --ntasks=1 horovodrun -np N python …`";
constexpr std::string_view from_python =
    "call init() from Python, which meets the other processes at torch's store, or start the job with "
    "`horovodrun -np N …`";
constexpr std::string_view whole_address =
    "set MASTER_ADDR and MASTER_PORT as well, or start the job with `torchrun --nproc-per-node N …` or "
    "`horovodrun -np N python …`";
constexpr std::string_view by_horovodrun = "set HOROVOD_GLOO_RENDEZVOUS_ADDR, HOROVOD_GLOO_RENDEZVOUS_PORT "
                                           "and the job's secret as well, or start the "
                                           "job with `horovodrun -np N python …`";

/// Innermost first.
const std::vector<launcher_row>& rows() {
  static const std::vector<launcher_row> table = {
      {"torchrun",
       "RANK",
       {"WORLD_SIZE"},
       {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"},
       gathering::torch_store,
       from_python},
      {"mpirun of Open MPI",
       "OMPI_COMM_WORLD_RANK",
       {"OMPI_COMM_WORLD_SIZE"},
       {},
       gathering::pmix,
       any_launcher,
       true,
       true},
      {"mpirun of MVAPICH",
       "MV2_COMM_WORLD_RANK",
       {"MV2_COMM_WORLD_SIZE"},
       {},
       gathering::pmi,
       any_launcher,
       true,
       true},
      {"jsrun", "JSM_NAMESPACE_RANK", {"JSM_NAMESPACE_SIZE"}, {}, gathering::pmix, any_launcher, true, true},
      {"mpirun of MPICH or Intel MPI, or srun",
       "PMI_RANK",
       {"PMI_SIZE"},
       {},
       gathering::pmi,
       any_launcher,
       true,
       true},
      {"srun --mpi=pmix",
       "PMIX_RANK",
       {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
       {"SLURM_STEP_ID", "SLURM_PROCID"},
       gathering::pmix,
       in_slurm,
       true},
      // MPI_Init of Open MPI 4 in a process that no launcher started sets PMIX_RANK itself, and OMPI_MCA_ess.
      {"a launcher that speaks PMIx",
       "PMIX_RANK",
       {},
       {},
       gathering::pmix,
       any_launcher,
       true,
       false,
       "OMPI_MCA_ess"},
      {"srun",
       "SLURM_PROCID",
       {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
       {"SLURM_STEP_ID"},
       gathering::nothing,
       in_slurm},
      {"the environment",
       "RANK",
       {"WORLD_SIZE"},
       {"MASTER_ADDR", "MASTER_PORT"},
       gathering::torch_store,
       from_python},
      {"the environment", "RANK", {"WORLD_SIZE"}, {}, gathering::nothing, whole_address},
      {"the environment",
       "HOROVOD_RANK",
       {"HOROVOD_SIZE"},
       {},
       gathering::nothing,
       by_horovodrun,
       false,
       true},
  };
  return table;
}

/// Slurm numbers the pseudo-steps of a batch script, an interactive shell and the like from this number on.
/// They run once, although SLURM_NTASKS is set for the whole allocation.
constexpr std::int64_t first_pseudo_step = 0xfffffff0;

std::optional<std::int64_t> number_in(const environment_lookup& environment, std::string_view name) {
  const auto text = environment(name);
  std::int64_t value = 0;
  if (!text)
    return std::nullopt;
  const auto end = text->data() + text->size();
  const auto [stop, problem] = std::from_chars(text->data(), end, value);
  return problem == std::errc() && stop == end && value >= 0 ? std::optional(value) : std::nullopt;
}

/// A rank or a size. A number above 32 bits counts as not set: truncated, it would name another rank.
std::optional<std::int32_t> place_in(const environment_lookup& environment, std::string_view name) {
  const auto number = number_in(environment, name);
  return number && *number <= std::numeric_limits<std::int32_t>::max()
             ? std::optional(static_cast<std::int32_t>(*number))
             : std::nullopt;
}

bool is_set(const environment_lookup& environment, std::string_view name) {
  const auto text = environment(name);
  if (!text || text->empty())
    return false;
  if (name != "SLURM_STEP_ID")
    return true;
  const auto step = number_in(environment, name);
  return step && *step < first_pseudo_step;
}

/// The variable by which a launcher tells its processes how to reach its process manager.
std::string_view channel_variable(gathering by) {
  return by == gathering::pmi ? "PMI_FD" : "PMIX_NAMESPACE";
}

std::optional<foreign_launch> described_by(const launcher_row& row, const environment_lookup& environment) {
  for (const auto name : row.also_set)
    if (!is_set(environment, name))
      return std::nullopt;
  if (!row.not_set.empty() && is_set(environment, row.not_set))
    return std::nullopt;
  const auto rank = place_in(environment, row.rank_variable);
  foreign_launch found{row.launcher, row.rank_variable, {}, -1, 0, row.by, row.remedy, row.starts_mpi, {}};
  if (found.has_process_manager()) {
    found.channel = environment(channel_variable(row.by)).value_or("");
    if (found.channel.empty())
      found.by = gathering::nothing;
  }
  if (rank)
    found.rank = *rank;
  if (row.size_variables.empty())
    return rank ? std::optional(found) : std::nullopt;
  for (const auto name : row.size_variables)
    if (const auto size = place_in(environment, name); size && *size > 0) {
      found.size_variable = name;
      found.size = *size;
      return rank || row.size_suffices ? std::optional(found) : std::nullopt;
    }
  return std::nullopt;
}

std::string place_text(std::int32_t rank, std::int32_t size) {
  const auto of = size > 0 ? " of " + std::to_string(size) : std::string(" of a job of unknown size");
  return rank < 0 ? "one" + of : "rank " + std::to_string(rank) + of;
}

} // namespace

bool is_slurm_task(const environment_lookup& environment) {
  return is_set(environment, "SLURM_STEP_ID");
}

std::string foreign_launch::text() const {
  std::string variables(rank_variable);
  if (!size_variable.empty())
    variables += ", " + std::string(size_variable);
  return "according to " + std::string(launcher) + " (" + variables + "), this process is " +
         place_text(rank, size);
}

std::string foreign_launch::advice() const {
  return std::string(remedy) + "; set HOROVOD_SIZE=1 if every process is meant to train alone";
}

std::optional<foreign_launch> find_foreign_launch(const environment_lookup& environment) {
  if (!environment)
    return std::nullopt;
  std::optional<foreign_launch> alone;
  for (const auto& row : rows())
    if (auto found = described_by(row, environment)) {
      // The row in `alone` may describe the same launcher by a variable that also gives the size.
      if (found->size == 0 && alone)
        continue;
      if (found->may_have_others())
        return found;
      if (!alone)
        alone = found;
    }
  return alone;
}

std::string place_in_environment(const environment_lookup& environment) {
  std::set<std::string_view> variables = {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"};
  for (const auto& row : rows()) {
    variables.insert(row.rank_variable);
    variables.insert(row.also_set.begin(), row.also_set.end());
  }
  std::string text;
  for (const auto name : variables)
    text += environment(name).value_or("-") + " ";
  return text;
}

bool is_meant_to_be_alone(const settings& values) {
  return values.is_set(setting::size) && values.integer(setting::size) == 1;
}

std::optional<foreign_launch> torch_store_launch(const environment_lookup& environment,
                                                 const settings& values) {
  if (!values.text(setting::rendezvous_address).empty() || is_meant_to_be_alone(values))
    return std::nullopt;
  const auto launch = find_foreign_launch(environment);
  return launch && launch->by == gathering::torch_store && launch->may_have_others() ? launch : std::nullopt;
}

error objection_to_job(const foreign_launch& launch, std::int32_t found_rank, std::int32_t found_size) {
  const bool agrees = launch.size > 0 ? launch.size == found_size : found_size > 1;
  if (agrees)
    return {};
  return {error_kind::precondition, launch.text() + ", but Farandole found a job in which it is " +
                                        place_text(found_rank, found_size) + ": " + launch.advice()};
}

} // namespace farandole
