#include "messages/values/dtype.hpp"

namespace farandole {

std::string_view to_string(dtype type) {
  constexpr std::string_view names[dtype_count] = {"uint8",   "int8",    "uint16",  "int16",
                                                   "int32",   "int64",   "float16", "bfloat16",
                                                   "float32", "float64", "bool"};
  return names[static_cast<std::size_t>(type)];
}

std::string_view to_string(reduce_op op) {
  constexpr std::string_view names[reduce_op_count] = {"Average", "Sum", "Adasum", "Min", "Max", "Product"};
  return names[static_cast<std::size_t>(op)];
}

} // namespace farandole
