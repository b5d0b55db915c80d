// The command line of jsrun, the launcher of LSF clusters with Spectrum MPI, and its rank file, which places each rank
// on a host with CPUs of its own. Nothing is started or written here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elastic/host_slots.hpp"
#include "messages/values/error.hpp"

namespace farandole {

struct jsrun_request {
  std::string rank_file;       ///< path of the written file; not used where binding_args are given
  std::string output_filename; ///< empty: no file
  std::string mpi_args;        ///< more options of MPI; jsrun itself splits them
  std::string binding_args;    ///< options in place of the rank file, split like a shell line
  bool tcp_only = false;       ///< --tcp
  bool timestamps = false;     ///< --prefix-output-with-timestamp
  std::vector<std::string> command;
};

/// Begins with "jsrun"; start it without a shell. The error names the option that jsrun cannot fulfil, and the remedy.
expected<std::vector<std::string>> make_jsrun_command(const jsrun_request& request);

/// The content of a rank file that places ranks in the first `processes` slots, host by host. The logical CPUs of a
/// host, `cpus_per_host`, are divided evenly among its slots; the remainder stays unused. `hosts` names no host twice.
expected<std::string> jsrun_rank_file(const std::vector<host_slots>& hosts, std::int32_t processes,
                                      std::int32_t cpus_per_host);

} // namespace farandole
