// The command line of mpirun for `horovodrun --mpi`. The implementations of MPI have different options for the same
// thing; this decision knows them, and refuses requests that an implementation could not fulfil. Nothing is started
// here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "elastic/host_slots.hpp"
#include "messages/settings/settings.hpp"
#include "messages/values/error.hpp"

namespace farandole {

enum class mpi_kind : std::uint8_t {
  open_mpi,   ///< up to version 4
  open_mpi_5, ///< version 5 and later, whose options begin with two dashes, and which starts hosts by PRRTE
  spectrum,
  mpich, ///< and others that start hosts by Hydra
  intel
};
std::string_view to_string(mpi_kind kind);

/// The kind of an mpirun, from what `mpirun --version` printed. The error lists the supported ones and other ways to
/// launch.
expected<mpi_kind> detect_mpi(std::string_view version_text);

/// Facts and choices in place of this file's own.
struct mpi_traits {
  std::string version_text; ///< what `mpirun --version` prints; empty: mpirun is asked
  std::optional<std::string>
      flags; ///< options in place of the default binding and of those of the implementation, split like a shell line
  std::size_t large_cluster = 64; ///< from so many hosts on, Open MPI starts all of them directly and at once
};

/// What the user asked for.
struct mpi_request {
  std::int32_t processes = 1;
  std::vector<host_slots> hosts; ///< empty: mpirun chooses; hosts without slots are left out
  std::vector<std::string>
      remote_shell;              ///< words of the program that starts daemons; empty: mpirun's own choice
  std::int32_t ssh_port = 0;     ///< 0: ssh's own choice
  std::string ssh_identity_file; ///< empty: ssh's own choice
  std::vector<std::string>
      interfaces;              ///< names, or networks such as 10.0.0.0/8; empty: MPI's and NCCL's own choice
  std::string output_filename; ///< empty: no files
  std::vector<std::string> variables; ///< names of the environment variables that the processes get
  std::string mpi_args;               ///< more options, split like a shell line
  std::string binding_args;           ///< options in place of the default binding, split likewise
  bool tcp_only = false;              ///< --tcp
  bool timestamps = false;            ///< --prefix-output-with-timestamp
  mpi_traits traits;
  std::vector<std::string> command;
};

struct mpi_command {
  std::vector<std::string> words;       ///< begins with "mpirun"; start it without a shell
  std::vector<std::string> environment; ///< "NAME=value": additions to mpirun's own environment
  std::vector<std::string> binding;     ///< the part of `words` that binds processes to cores
  std::vector<std::string> flags;       ///< the part of `words` that only this implementation needs
};

/// The error names the option or host, both values where two disagree, and the remedy.
expected<mpi_command> make_mpi_command(mpi_kind kind, const mpi_request& request);

/// An environment ("NAME=value") in which PATH and PYTHONPATH, where missing, are those of the launcher.
std::vector<std::string> with_search_paths(std::vector<std::string> environment,
                                           const environment_lookup& launcher);

} // namespace farandole
