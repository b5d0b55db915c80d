// The compiled kernels, which are a part of the library: a fat binary with machine code for several
// generations of GPUs, and PTX, which the driver compiles for all others that are newer than the oldest of
// them.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace farandole {

struct kernel_image {
  std::span<const std::byte> bytes; ///< empty: there are none
  std::string origin; ///< "CUDA 13.0 for the compute capabilities 80, 90"; or why there are none
};

/// Of this build. CMake chooses the file that implements it.
kernel_image built_kernels();

} // namespace farandole
