// What a worker finds in its environment: where it stands in the job, where the rendezvous is, and the
// settings that were given on the command line or in the config file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "messages/settings/settings.hpp"
#include "tools/farandole/hosts.hpp"

namespace farandole {

/// What all workers of a job have in common.
struct job_facts {
  std::int32_t size = 1;
  std::string rendezvous_address;
  std::uint16_t rendezvous_port = 0;
  int secret_descriptor = -1;
  std::vector<std::string> interfaces = {"lo"};
  std::int32_t limit = 0;                  ///< members that an elastic job may have; 0: it is not elastic
  std::optional<std::int32_t> reset_limit; ///< of an elastic job
  bool tcp_only = false;                   ///< --tcp: NCCL stays off InfiniBand
  std::int32_t cores = 1;                  ///< that the workers of this host share
  std::int64_t launcher = 0; ///< process that ends an elastic job by SIGTERM; 0: it is not elastic
};

/// Whether these entries ("NAME=value") say how many threads a worker may start (OMP_NUM_THREADS).
bool sets_threads(std::span<const std::string> environment);

/// `inherited` is the launcher's own environment ("NAME=value"); what is set here takes the place of what was
/// there.
std::vector<std::string> worker_environment(std::span<const std::string> inherited, const placement& place,
                                            const job_facts& job, const settings& given);

} // namespace farandole
