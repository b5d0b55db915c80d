#include "collectives/transport/mpi/mpi_path.hpp"

#include <algorithm>

#include "collectives/transport/path_setup.hpp"

namespace farandole {
namespace {

/// MPI counts bytes in an int.
constexpr std::size_t longest_message = std::size_t{1} << 30;

} // namespace

std::unique_ptr<p2p_path> make_mpi_path(const mpi_set& set, std::size_t adasum_message_bytes) {
  p2p_options options;
  options.adasum_message_bytes = std::min(adasum_message_bytes, longest_message);
  return std::make_unique<p2p_path>("mpi", std::make_unique<mpi_messenger>(set), options);
}

// The slot of a member is its rank in the job's communicator.
expected<std::unique_ptr<path>> open_mpi(const path_setup& setup) {
  const auto& job = setup.options.mpi;
  if (!job)
    return error{
        error_kind::unimplemented,
        "FARANDOLE_CPU_PATH=mpi (HOROVOD_CPU_OPERATIONS=mpi) was set for the job, but this process was "
        "started without MPI; set it for every process, and start them with mpirun"};
  std::vector<std::int32_t> places;
  for (auto& member : setup.set.members)
    places.push_back(member.slot);
  return opened_path{make_mpi_path(
      mpi_set{job->engine, job->group, setup.set.set, std::move(places), setup.set.rank, setup.wait_policy()},
      setup.options.adasum_message_bytes)};
}

} // namespace farandole
