// Finds and loads MPI when a job first asks for it: libmpi for the whole process, because its own components
// look its symbols up there, then our module beside this program or library.
#pragma once

#include "collectives/transport/mpi/mpi_module.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Whether this installation has the module. Loads nothing.
bool mpi_is_installed();

/// Loads it once; it stays until the process ends. The error says what was looked for and what is missing.
/// Thread-safe.
const expected<const mpi_module*>& load_mpi();

} // namespace farandole
