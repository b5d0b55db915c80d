// Conversions between the numbers of XLA and of Farandole for element types and for kinds of failure.
#pragma once

#include <cstddef>
#include <optional>

#include "bindings/kernels/jax/xla_ffi.hpp"
#include <farandole/farandole.h>

namespace farandole::kernels {

xla::error_code code_of(farandole_status status);

/// None for types that are not supported.
std::optional<farandole_dtype> dtype_of(xla::element type);

std::size_t bytes_of(farandole_dtype type);

} // namespace farandole::kernels
