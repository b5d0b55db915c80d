#include "collectives/fusion/ready_tensor.hpp"

#include <tuple>
#include <utility>

namespace farandole {

bool operator==(const ready_tensor& a, const ready_tensor& b) {
  auto plain = [](const ready_tensor& tensor) {
    return std::tie(tensor.id, tensor.group, tensor.operation, tensor.dtype, tensor.reduce_op, tensor.root,
                    tensor.prescale, tensor.postscale, tensor.memory, tensor.elements, tensor.bytes);
  };
  const ready_details none;
  return plain(a) == plain(b) && (a.details ? *a.details : none) == (b.details ? *b.details : none);
}

ready_tensor by_name(ready_tensor tensor, std::string_view name) {
  auto details = tensor.details ? *tensor.details : ready_details{};
  details.name = name;
  tensor.id = 0;
  tensor.details = std::make_shared<const ready_details>(std::move(details));
  return tensor;
}

} // namespace farandole
