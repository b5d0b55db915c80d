// The NVIDIA driver of this machine and its GPUs, for reports to users. Creates no context and takes no GPU memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages/values/error.hpp"

namespace farandole {

struct gpu_facts {
  std::string name; ///< "NVIDIA H100 80GB HBM3"
  std::string uuid; ///< 36 characters: "1b3e2c04-…". A GPU has the same one in every process
  std::uint64_t memory_bytes = 0;
  int compute_major = 0, compute_minor = 0; ///< its compute capability, 9.0 for H100
};

struct driver_facts {
  std::string path;            ///< of the loaded library
  int cuda_version = 0;        ///< the newest that it supports: 13000 is 13.0
  std::vector<gpu_facts> gpus; ///< that this process may use (CUDA_VISIBLE_DEVICES), in the driver's order
};

/// "13.0" for 13000.
inline std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Loads the driver, which stays loaded until the process ends, and asks it for the GPUs. The error names the
/// library that is missing or too old, and the remedy. Blocks for as long as the driver takes to initialise, up to
/// seconds: call it in a command, not on an event loop. Thread-safe.
expected<driver_facts> find_driver(const std::string& library = "libcuda.so.1");

} // namespace farandole
