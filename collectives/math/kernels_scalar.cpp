// The loops for the baseline of the architecture. The compiler flags are set in CMakeLists.txt.
#include "collectives/math/kernel_loops.hpp"

namespace farandole::math {

constinit const kernel_table scalar_kernels = make_kernels("scalar");

} // namespace farandole::math
