// The loops for AVX2 and F16C. The compiler flags are set in CMakeLists.txt.
#include "collectives/math/kernel_loops.hpp"

namespace farandole::math {

constinit const kernel_table avx2_kernels = make_kernels("avx2");

} // namespace farandole::math
