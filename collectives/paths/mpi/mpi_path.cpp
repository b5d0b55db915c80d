#include "collectives/paths/mpi/mpi_path.hpp"

#include <algorithm>

#include "collectives/paths/bundle_bytes.hpp"
#include "collectives/paths/path_setup.hpp"

namespace farandole {
namespace {

/// MPI counts bytes in an int.
constexpr std::size_t longest_message = std::size_t{1} << 30;

} // namespace

mpi_path::mpi_path(const mpi_set& set, std::size_t adasum_message_bytes) : messages_(set) {
  staging_.adasum_message_bytes = std::min(adasum_message_bytes, longest_message);
}

error mpi_path::connect(std::span<const std::string> /*addresses*/, std::int32_t /*rank*/,
                        const limits& until) {
  return broken_ = messages_.greet(until);
}

outcome mpi_path::run(const work& bundle, const limits& until) {
  if (broken_)
    return {broken_};
  if (auto problem = why_not_on_cpu(bundle, static_cast<std::size_t>(messages_.members())))
    return {problem}; // nothing has been sent: the path remains
  messages_.begin(bundle.sequence);
  broken_ = message_exchange{messages_, staging_, bundle, until, {}, nullptr}.run();
  if (broken_)
    messages_.close();
  return {broken_};
}

// A member's slot is its rank in the job's communicator.
expected<std::unique_ptr<path>> open_mpi(const path_setup& setup) {
  const auto& job = setup.options.mpi;
  if (!job)
    return error{
        error_kind::unimplemented,
        "FARANDOLE_CPU_PATH=mpi (HOROVOD_CPU_OPERATIONS=mpi) was set for the job, but this process was "
        "started without MPI; set it for every process, and start them with mpirun"};
  std::vector<std::int32_t> places;
  for (auto& each : setup.set.members)
    places.push_back(each.slot);
  return opened_path{std::make_unique<mpi_path>(
      mpi_set{job->engine, job->group, setup.set.set, std::move(places), setup.set.rank, setup.wait_policy()},
      setup.options.adasum_message_bytes)};
}

} // namespace farandole
