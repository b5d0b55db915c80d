// On architectures without other kernels, the scalar ones are used.
#include "collectives/math/kernels.hpp"

namespace farandole::math {

std::span<const kernel_table* const> usable_kernels() {
  static constexpr const kernel_table* tables[] = {&scalar_kernels};
  return tables;
}

} // namespace farandole::math
