// The environment variables of a worker: its position in the job, the address of the rendezvous, and the settings
// that were given on the command line or in the config file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "messages/settings/settings.hpp"
#include "tools/farandole/hosts.hpp"

namespace farandole {

/// The facts that are the same for all workers of a job.
struct job_facts {
  std::int32_t size = 1;
  std::string rendezvous_address;
  std::uint16_t rendezvous_port = 0;
  int secret_descriptor = -1; ///< -1: the agent of the worker's host adds it
  std::vector<std::string> interfaces = {"lo"};
  std::int32_t limit = 0;                  ///< maximum number of members of an elastic job; 0: not elastic
  std::optional<std::int32_t> reset_limit; ///< for an elastic job
  bool tcp_only = false;                   ///< --tcp: NCCL must not use InfiniBand
  std::int32_t cores = 1;                  ///< cores that the workers of this host share
  std::int64_t launcher = 0;               ///< process id; SIGTERM to it ends an elastic job; 0: not elastic
  std::string own_address = {};            ///< of the workers; empty: they find it themselves
};

/// Whether these entries ("NAME=value") limit the threads of a worker (OMP_NUM_THREADS).
bool sets_threads(std::span<const std::string> environment);

/// The environment without the variables that hold or name a secret.
std::vector<std::string> without_secrets(std::span<const std::string> environment);

/// The variables of the launcher that workers on other hosts get: all but functions of the shell, the previous working
/// directory, the choice of GPUs and a secret.
std::vector<std::string> forwarded_variables(std::span<const std::string> own);

/// The environment of one worker. `inherited` is the launcher's own environment ("NAME=value"); the variables
/// that are set here override those in it.
std::vector<std::string> worker_environment(std::span<const std::string> inherited, const placement& place,
                                            const job_facts& job, const settings& given);

/// The environment of mpirun or jsrun and of the processes that it starts: `inherited`, without the place of this
/// launcher in another job, and with the settings that were given. The processes learn their place from mpirun.
/// `interfaces` may be empty, and may be networks.
std::vector<std::string> environment_without_place(std::span<const std::string> inherited,
                                                   const settings& given,
                                                   std::span<const std::string> interfaces, bool tcp_only);

/// The names of the variables of `environment` that mpirun is to pass to other hosts, those of secrets included: all
/// processes need the same secret.
std::vector<std::string> exported_names(std::span<const std::string> environment);

} // namespace farandole
