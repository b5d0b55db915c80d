// Takes the place of image_built.cpp if CMake found no compiler for the kernels.
#include "cuda/kernels/kernel_image.hpp"

namespace farandole {

kernel_image built_kernels() {
  return {
      {},
      "this build has no kernels for GPUs, because it found no nvcc of CUDA 12.1 or later; set CUDA_HOME and "
      "build it again"};
}

} // namespace farandole
