// Starts the agents of hosts in a job of Slurm, by one step of srun with a task on each host. The agent of a host learns
// the host's name from Slurm. The standard input of srun goes to all tasks, so it carries the secret.
#pragma once

#include <span>
#include <string>

#include "actors/launch/placer.hpp"
#include "tools/farandole/placers/agent_words.hpp"

namespace farandole {

/// `survives_failures`: the step continues when an agent fails, which is reported when the start timeout ends.
/// Otherwise Slurm ends the step, and the failure is reported at once. `environment` is that of the launcher, as
/// "NAME=value".
placer slurm_placer(const agent_program& program, bool survives_failures,
                    std::span<const std::string> environment);

} // namespace farandole
