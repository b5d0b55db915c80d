// Moves bundles with MPI: the collectives of message_exchange.hpp over a set's messages. So results have the
// bits of every other path, every number type and every operation goes, and whatever MPI does, it does in
// memory of its own.
#pragma once

#include <cstddef>
#include <memory>

#include "collectives/transport/mpi/mpi_messenger.hpp"
#include "collectives/transport/p2p/p2p_path.hpp"

namespace farandole {

struct path_setup;

/// What a job that speaks MPI has: handed to every set.
struct mpi_job {
  mpi_engine* engine = nullptr;
  mpi_group group;
};

/// `adasum_message_bytes`: longest message of an Adasum.
std::unique_ptr<p2p_path> make_mpi_path(const mpi_set& set, std::size_t adasum_message_bytes);

/// `unimplemented` where this process has no MPI job.
expected<std::unique_ptr<path>> open_mpi(const path_setup& setup);

} // namespace farandole
