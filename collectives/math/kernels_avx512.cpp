// The loops for AVX-512 (F, BW, DQ, VL). The compiler flags are set in CMakeLists.txt.
#include "collectives/math/kernel_loops.hpp"

namespace farandole::math {

constinit const kernel_table avx512_kernels = make_kernels("avx512");

} // namespace farandole::math
