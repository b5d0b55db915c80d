#include "messages/values/dtype.hpp"

#include "messages/values/dtype_names.hpp"

namespace farandole {

std::string_view to_string(dtype type) {
  return dtype_names[static_cast<std::size_t>(type)];
}

std::string_view to_string(reduce_op op) {
  constexpr std::string_view names[reduce_op_count] = {"Average", "Sum", "Adasum", "Min", "Max", "Product"};
  return names[static_cast<std::size_t>(op)];
}

} // namespace farandole
