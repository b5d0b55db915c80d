#include "cuda/fake/fake_nccl_reduce_testing.hpp"

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace fake_nccl {

namespace {

/// The type in which a type is computed.
template <class Element>
struct arithmetic {
  using type = std::conditional_t<std::is_integral_v<Element>, std::uint64_t, Element>;
  static type widen(Element value) { return static_cast<type>(value); }
  static Element narrow(type value) { return static_cast<Element>(value); }
};

template <>
struct arithmetic<__half> {
  static float widen(__half value) { return __half2float(value); }
  static __half narrow(float value) { return __float2half(value); }
};

template <>
struct arithmetic<__nv_bfloat16> {
  static float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
  static __nv_bfloat16 narrow(float value) { return __float2bfloat16(value); }
};

template <class Element>
bool is_less(Element left, Element right) {
  if constexpr (std::is_integral_v<Element>)
    return left < right;
  else
    return arithmetic<Element>::widen(left) < arithmetic<Element>::widen(right);
}

template <class Element>
Element combine(Element left, Element right, ncclRedOp_t op) {
  using in = arithmetic<Element>;
  switch (op) {
  case ncclSum:
    return in::narrow(in::widen(left) + in::widen(right));
  case ncclProd:
    return in::narrow(in::widen(left) * in::widen(right));
  case ncclMax:
    return is_less(left, right) ? right : left;
  default:
    return is_less(right, left) ? right : left;
  }
}

template <class Element>
void reduce_as(unsigned char* target, const unsigned char* source, std::size_t count, ncclRedOp_t op) {
  for (std::size_t i = 0; i < count; ++i) {
    Element left, right;
    std::memcpy(&left, target + i * sizeof left, sizeof left);
    std::memcpy(&right, source + i * sizeof right, sizeof right);
    left = combine(left, right, op);
    std::memcpy(target + i * sizeof left, &left, sizeof left);
  }
}

struct type_row {
  ncclDataType_t type;
  std::size_t bytes;
  void (*reduce)(unsigned char*, const unsigned char*, std::size_t, ncclRedOp_t);
};

template <class Element>
constexpr type_row row(ncclDataType_t type) {
  return {type, sizeof(Element), reduce_as<Element>};
}

constexpr type_row rows[] = {
    row<std::int8_t>(ncclInt8),     row<std::uint8_t>(ncclUint8),     row<std::int32_t>(ncclInt32),
    row<std::uint32_t>(ncclUint32), row<std::int64_t>(ncclInt64),     row<std::uint64_t>(ncclUint64),
    row<__half>(ncclFloat16),       row<__nv_bfloat16>(ncclBfloat16), row<float>(ncclFloat32),
    row<double>(ncclFloat64),
};

const type_row* find(ncclDataType_t type) {
  for (const auto& candidate : rows)
    if (candidate.type == type)
      return &candidate;
  return nullptr;
}

} // namespace

std::size_t element_bytes(ncclDataType_t type) {
  const auto* found = find(type);
  return found != nullptr ? found->bytes : 0;
}

bool can_reduce(ncclRedOp_t op) {
  return op == ncclSum || op == ncclProd || op == ncclMax || op == ncclMin;
}

void reduce(unsigned char* target, const unsigned char* source, std::size_t count, ncclDataType_t type,
            ncclRedOp_t op) {
  find(type)->reduce(target, source, count, op);
}

} // namespace fake_nccl
