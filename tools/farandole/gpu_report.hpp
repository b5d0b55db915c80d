// The block of `farandole check` on GPUs: the driver, the GPUs and NCCL that were found, and how tensors in GPU memory
// are moved.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda/driver/driver_facts.hpp"
#include "cuda/nccl/nccl_facts.hpp"

namespace farandole {

/// Where NCCL may be: in the packages of the Python environment, as PyTorch installs it, then in the loader's folders.
std::vector<std::string> nccl_candidates(const std::optional<std::string>& python);

/// `objection`: why this build can use no NCCL; kind `none` if it can.
std::string gpu_report(const expected<driver_facts>& driver, const expected<nccl_facts>& nccl,
                       const error& objection);

/// Looks for the driver, and for NCCL if there are GPUs.
std::string find_and_report_gpus(const std::optional<std::string>& python);

} // namespace farandole
