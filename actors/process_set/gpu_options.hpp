// How the lane of a process set uses the GPUs of this process: derived from the job's settings, and from what the process
// has.
#pragma once

#include <array>
#include <functional>

#include "actors/gpu/nccl_runner.hpp"
#include "collectives/operation.hpp"
#include "messages/settings/settings.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

struct set_setup;

/// How tensors in GPU memory move, by operation. FARANDOLE_GPU_PATH overrides HOROVOD_GPU_ALLREDUCE and its like, and
/// these override HOROVOD_GPU_OPERATIONS.
std::array<gpu_choice, operation_count> gpu_choices(const settings& values);

/// Whether devices may wait for other members while they work on a bundle: it may move by NCCL. The same on all members.
std::function<bool(const bundle& cut)> device_waits_of(const set_setup& setup);

/// `launcher` and `library` use the GPUs and the NCCL of this process, which are looked for when a tensor needs them.
nccl_runner::options nccl_options_of(const set_setup& setup);

} // namespace farandole
