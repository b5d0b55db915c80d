// The kernels of tests: those of this build, or an image that only the stand-in driver takes if this build
// has none.
#pragma once

#include <string_view>

#include "cuda/kernels/kernel_image.hpp"

namespace farandole {

inline constexpr std::string_view stand_in_image = "Kernels that the stand-in driver runs";

inline kernel_image kernels_for_tests() {
  auto built = built_kernels();
  return !built.bytes.empty() ? built
                              : kernel_image{std::as_bytes(std::span(stand_in_image)), "the stand-in driver"};
}

} // namespace farandole
