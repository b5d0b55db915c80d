#include "actors/member/mpi_start.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "actors/rendezvous/this_host.hpp"
#include "collectives/transport/mpi/mpi_path.hpp"
#include "collectives/transport/registry/forced_path.hpp"

namespace farandole {
namespace {

using clock = std::chrono::steady_clock;

/// The number of the set that ranks use to exchange the address of the rendezvous. No process set has this number.
constexpr std::uint32_t meeting_set = 0xffffffff;

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

/// The address of the rendezvous, which rank 0 sends to the other ranks. It has a fixed size, so that one message
/// suffices.
struct meeting_point {
  std::array<char, 64> ip{};
  std::array<char, 512> secret{}; ///< empty: all ranks know the secret already
  std::uint32_t port = 0;
};

template <std::size_t Size>
void write(std::array<char, Size>& field, const std::string& text) {
  std::memcpy(field.data(), text.data(), std::min(text.size(), Size - 1));
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
  if (group->rank == 0)
    if (auto problem = met->serve(values, secret))
      return problem;
  if (auto problem = met->share(values, secret, deadline))
    return problem;
  return met;
}

error mpi_start::serve(const settings& values, const std::string& given_secret) {
  auto ip = job_->group.one_host ? expected<std::string>("127.0.0.1") : address_for_others(values);
  if (!ip)
    return ip.error();
  auto service = served_rendezvous::start(values, job_->group.size, *ip, given_secret);
  if (!service)
    return service.error();
  rendezvous_ = std::move(*service);
  return {};
}

error mpi_start::share(settings& values, std::string& secret, clock::time_point deadline) {
  meeting_point rendezvous;
  if (rendezvous_) {
    write(rendezvous.ip, rendezvous_->ip());
    write(rendezvous.secret, secret.empty() ? rendezvous_->secret() : std::string());
    rendezvous.port = rendezvous_->port();
  }
  auto bytes = std::as_writable_bytes(std::span(&rendezvous, 1));
  const auto& group = job_->group;
  mpi_messenger messages(mpi_set{job_->engine, group, meeting_set, everybody(group.size), group.rank,
                                 futex_wait::decide(static_cast<unsigned>(group.size))});
  message_ticket ticket;
  if (group.rank != 0)
    messages.receive(0, message_phase::tree, bytes, ticket);
  else
    for (std::int32_t rank = 1; rank < group.size; ++rank)
      messages.send(rank, message_phase::tree, bytes, ticket);
  const abort_token never;
  if (auto problem = messages.wait(ticket, {never, deadline, values.cited(setting::start_timeout)}))
    return problem;
  if (rendezvous.secret.front() != 0)
    secret = rendezvous.secret.data();
  values.assign(setting::rendezvous_address, rendezvous.ip.data(), setting_source::rendezvous);
  values.assign(setting::rendezvous_port, std::to_string(rendezvous.port), setting_source::rendezvous);
  return {};
}

bool mpi_start::threads() const {
  return job_->engine->world().level == mpi_level::multiple;
}

} // namespace farandole
