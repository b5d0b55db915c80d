// Which kernel runs a pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "cuda/kernels/kernel_list.hpp"
#include "cuda/kernels/tensor_pass.hpp"

namespace farandole {

#define FARANDOLE_KERNEL_NAME(name, ...) #name,
inline constexpr const char* kernel_names[] = {FARANDOLE_KERNELS(FARANDOLE_KERNEL_NAME)};
#undef FARANDOLE_KERNEL_NAME
inline constexpr std::size_t kernel_count = std::size(kernel_names);

/// As the kernel is called in the image.
inline std::string symbol_of(std::size_t kernel, bool is_large) {
  return std::string("farandole_") + kernel_names[kernel] + (is_large ? "_large" : "_small");
}

constexpr bool is_float(dtype type) {
  return type >= dtype::float16 && type <= dtype::float64;
}

/// An index of `kernel_names`; empty if there is no such kernel.
constexpr std::optional<std::size_t> kernel_for(dtype from, dtype to, double scale) {
  constexpr std::size_t copies = 4, integers = 6, floats = 4;
  constexpr auto number = [](dtype type) { return static_cast<std::size_t>(type); };
  if (from == to && scale == 1.0) {
    constexpr std::size_t kernel_by_bytes[] = {0, 0, 1, 0, 2, 0, 0, 0, 3};
    return kernel_by_bytes[size_of(from)];
  }
  if (is_float(from) && is_float(to))
    return copies + integers + (number(from) - number(dtype::float16)) * floats + number(to) -
           number(dtype::float16);
  if (from == to && from < dtype::float16)
    return copies + number(from);
  return std::nullopt;
}

} // namespace farandole
