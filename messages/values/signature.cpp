#include "messages/values/signature.hpp"

#include <bit>
#include <cassert>

namespace farandole {

bool operator==(const signature& a, const signature& b) {
  return a.operation == b.operation && a.dtype == b.dtype && a.reduce_op == b.reduce_op && a.root == b.root &&
         std::bit_cast<std::uint64_t>(a.prescale) == std::bit_cast<std::uint64_t>(b.prescale) &&
         std::bit_cast<std::uint64_t>(a.postscale) == std::bit_cast<std::uint64_t>(b.postscale) &&
         a.memory == b.memory && a.shape == b.shape;
}

std::int64_t element_count(const shape& extents) {
  std::int64_t count = 1;
  for (auto extent : extents)
    count *= extent;
  return count;
}

std::int64_t elements_of_row(const shape& extents) {
  assert(!extents.empty());
  std::int64_t count = 1;
  for (std::size_t i = 1; i < extents.size(); ++i)
    count *= extents[i];
  return count;
}

std::size_t bytes_of_row(const signature& signature) {
  return static_cast<std::size_t>(elements_of_row(signature.shape)) * size_of(signature.dtype);
}

std::string to_string(const shape& extents) {
  std::string text = "[";
  for (std::size_t i = 0; i < extents.size(); ++i)
    text += (i ? ", " : "") + std::to_string(extents[i]);
  return text + "]";
}

} // namespace farandole
