// The kernels, of kernel_list.hpp. CMake compiles this file with nvcc, and embeds the result in the library.
#include "cuda/kernels/kernel_list.hpp"
#include "cuda/kernels/pass_thread.hpp"

namespace farandole::kernels {

#define KERNEL_OF(name, arguments, ...)                                                                      \
  extern "C" __global__ void __launch_bounds__(threads_of_block, blocks_of_multiprocessor)                   \
      farandole_##name(const __grid_constant__ arguments given) {                                            \
    run_thread<__VA_ARGS__>(given.header, given.pieces, {blockIdx.x, threadIdx.x});                          \
  }
#define KERNEL(name, ...)                                                                                    \
  KERNEL_OF(name##_small, small_arguments, __VA_ARGS__)                                                      \
  KERNEL_OF(name##_large, large_arguments, __VA_ARGS__)

FARANDOLE_KERNELS(KERNEL)

} // namespace farandole::kernels
