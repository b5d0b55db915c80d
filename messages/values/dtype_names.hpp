// The names of all element types, as Python uses them. Headers and libraries that do not link the core, such as the
// kernels of frameworks, read this table; all others call to_string().
#pragma once

#include <string_view>

#include "messages/values/dtype.hpp"

namespace farandole {

/// By the number of the type.
inline constexpr std::string_view dtype_names[dtype_count] = {"uint8",   "int8",    "uint16",  "int16",
                                                              "int32",   "int64",   "float16", "bfloat16",
                                                              "float32", "float64", "bool"};

} // namespace farandole
