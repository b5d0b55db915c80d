// Moves bundles with MPI's point-to-point messages, by the collectives of message_exchange.hpp. Results have
// the bits of every other path, and every data type and operation is supported. MPI accesses only memory of
// the messenger, not the caller's buffers.
#pragma once

#include <cstddef>
#include <memory>

#include "collectives/transport/mpi/mpi_messenger.hpp"
#include "collectives/transport/p2p/p2p_path.hpp"

namespace farandole {

struct path_setup;

/// The MPI state of a job, which is passed to every process set.
struct mpi_job {
  mpi_engine* engine = nullptr;
  mpi_group group;
};

/// `adasum_message_bytes`: maximum length of an Adasum message.
std::unique_ptr<p2p_path> make_mpi_path(const mpi_set& set, std::size_t adasum_message_bytes);

/// `unimplemented` if this process has no MPI job.
expected<std::unique_ptr<path>> open_mpi(const path_setup& setup);

} // namespace farandole
