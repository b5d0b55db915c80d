#include "actors/member/mpi_start.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "actors/member/mpi_key_values.hpp"
#include "actors/pmi/job_meeting.hpp"
#include "collectives/transport/mpi/mpi_path.hpp"
#include "collectives/transport/registry/forced_path.hpp"

namespace farandole {
namespace {

using clock = std::chrono::steady_clock;

error refuse(std::string text) {
  return {error_kind::precondition, std::move(text)};
}

bool forces_mpi(const settings& values) {
  return find_forced_path(values).name == "mpi";
}

/// The setting that asks for MPI, as the user wrote it; for error messages.
std::string who_asks(const settings& values) {
  if (forces_mpi(values))
    return std::string(find_forced_path(values).variable) + "=mpi";
  if (values.text(setting::controller) == "mpi")
    return "HOROVOD_CONTROLLER=mpi";
  return "init(comm=…)";
}

/// If MPI took too long, adds to the error which setting raises the limit.
error with_remedy(error problem, const settings& values) {
  if (problem.kind == error_kind::timed_out)
    problem.text += ", within the " + values.cited(setting::start_timeout) +
                    "; where processes start slowly, set it to more";
  return problem;
}

std::vector<std::int32_t> everybody(std::int32_t size) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Checks that this process has the same rank and size for the launcher, whose rendezvous the settings name, and for
/// MPI.
error check_place(const settings& values, const mpi_group& group) {
  const auto rank = values.integer(setting::rank);
  const auto size = values.integer(setting::size);
  if (rank == group.rank && size == group.size)
    return {};
  return refuse(who_asks(values) + " needs one job for the launcher and for MPI, but this process is rank " +
                std::to_string(rank) + " of " + std::to_string(size) + " for the launcher and rank " +
                std::to_string(group.rank) + " of " + std::to_string(group.size) +
                " for MPI; start it with mpirun alone, or unset the setting");
}

expected<std::vector<std::int32_t>> members_of(const mpi_facts& facts, const mpi_state& world) {
  auto ranks = facts.ranks.empty() ? everybody(world.size) : facts.ranks;
  for (auto rank : ranks)
    if (rank < 0 || rank >= world.size || std::count(ranks.begin(), ranks.end(), rank) != 1)
      return error{error_kind::invalid_argument, "rank " + std::to_string(rank) +
                                                     " of comm is none of MPI's, which has " +
                                                     std::to_string(world.size) + ", or comes twice"};
  if (std::find(ranks.begin(), ranks.end(), world.rank) == ranks.end())
    return error{error_kind::invalid_argument,
                 "this process is rank " + std::to_string(world.rank) + " of MPI, and comm is without it"};
  return ranks;
}

} // namespace

bool needs_mpi(const settings& values, const mpi_facts& facts) {
  const bool has_rendezvous = !values.text(setting::rendezvous_address).empty();
  if (!facts.ranks.empty())
    return true;
  if (has_rendezvous)
    return forces_mpi(values);
  return forces_mpi(values) || values.text(setting::controller) == "mpi";
}

expected<std::unique_ptr<mpi_start>> mpi_start::meet(settings& values, std::string& secret,
                                                     const mpi_facts& facts) {
  const bool launched_otherwise = !values.text(setting::rendezvous_address).empty();
  const bool alone = is_meant_to_be_alone(values) && !launched_otherwise;
  if (facts.ranks.empty() && (alone || !facts.launched_by_mpi())) {
    // A process that MPI did not launch would get an MPI world of one process.
    if (values.integer(setting::size) == 1)
      return std::unique_ptr<mpi_start>();
    return refuse(who_asks(values) + " needs processes that mpirun or mpiexec started, and this one was not "
                                     "(OMPI_COMM_WORLD_SIZE is not set); start the job with mpirun -np N, or "
                                     "unset the setting");
  }
  const auto deadline = clock::now() + values.duration(setting::start_timeout);
  auto engine = mpi_engine::of_process(values.flag(setting::mpi_threads_disable), deadline);
  if (!engine)
    return with_remedy({engine.error().kind, who_asks(values) + ": " + engine.error().text}, values);
  const auto& world = (*engine)->world();
  // An MPI library other than the launcher's makes each process a world of its own.
  const bool needs_launcher = !launched_otherwise && !is_meant_to_be_alone(values);
  if (facts.launch && (facts.launched_by_mpi() || needs_launcher))
    if (auto problem = objection_to_job(*facts.launch, world.rank, world.size))
      return problem;
  const auto ranks = members_of(facts, world);
  if (!ranks)
    return ranks.error();
  auto group = (*engine)->form(*ranks, deadline);
  if (!group)
    return with_remedy(group.error(), values);
  std::unique_ptr<mpi_start> met(new mpi_start);
  met->job_ = std::make_shared<mpi_job>(mpi_job{*engine, *group});
  if (launched_otherwise) {
    if (auto problem = check_place(values, *group))
      return problem;
    return met;
  }
  met->brought_together_ = true;
  values.assign(setting::rank, std::to_string(group->rank), setting_source::environment);
  values.assign(setting::size, std::to_string(group->size), setting_source::environment);
  if (group->size == 1)
    return met;
  mpi_key_values space(*met->job_, values.cited(setting::start_timeout));
  auto place = hold_meeting(space, 1, values, secret, deadline); // each start has a communicator of its own
  if (!place)
    return place.error();
  if (place->refusal)
    return place->refusal;
  place->assign_to(values);
  secret = place->secret;
  met->rendezvous_ = std::move(place->rendezvous);
  return met;
}

bool mpi_start::threads() const {
  return job_->engine->world().level == mpi_level::multiple;
}

} // namespace farandole
