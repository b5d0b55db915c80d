// Finds and loads MPI when a job first asks for it. libmpi is loaded into the global scope of the process,
// because its own components look up its symbols there; then the module beside this program or library is
// loaded.
#pragma once

#include "collectives/transport/mpi/mpi_module.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Whether this installation has the module. Does not load it.
bool mpi_is_installed();

/// Loads the module once; it stays loaded until the process ends. The error says which file was not found or
/// could not be used. Thread-safe.
const expected<const mpi_module*>& load_mpi();

} // namespace farandole
