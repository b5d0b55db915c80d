#include "bindings/native/capsule.hpp"

#include <nanobind/ndarray.h>

#include <limits>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace farandole::native {
namespace {

// DLPack's managed tensor as every consumer understands it; the layout is fixed by that standard.
struct managed_tensor {
  nb::dlpack::dltensor tensor;
  void* context;
  void (*deleter)(managed_tensor*);
};

/// A DLPack tensor and the owner of its bytes. Freed by the consumer, from any thread and without the GIL.
struct lent_bytes {
  managed_tensor managed{};
  std::shared_ptr<const void> owner;
  farandole::shape extents;
};

nb::dlpack::dtype dlpack_type(dtype type) {
  using code = nb::dlpack::dtype_code;
  const auto bits = static_cast<std::uint8_t>(8 * size_of(type));
  const auto as = [bits](code kind) { return nb::dlpack::dtype{static_cast<std::uint8_t>(kind), bits, 1}; };
  switch (type) {
  case dtype::uint8:
  case dtype::uint16:
    return as(code::UInt);
  case dtype::int8:
  case dtype::int16:
  case dtype::int32:
  case dtype::int64:
    return as(code::Int);
  case dtype::bfloat16:
    return as(code::Bfloat);
  case dtype::boolean:
    return as(code::Bool);
  case dtype::float16:
  case dtype::float32:
  case dtype::float64:
    break;
  }
  return as(code::Float);
}

constexpr const char* untaken_name = "dltensor"; // a consumer renames the capsule it takes

void drop_untaken(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, untaken_name))
    return;
  auto* managed = static_cast<managed_tensor*>(PyCapsule_GetPointer(capsule, untaken_name));
  managed->deleter(managed);
}

nb::object capsule_over(std::byte* bytes, std::shared_ptr<const void> owner, dtype type, shape extents) {
  auto lent = std::make_unique<lent_bytes>();
  lent->owner = std::move(owner);
  lent->extents = std::move(extents);
  nb::dlpack::dltensor& tensor = lent->managed.tensor;
  tensor.data = bytes;
  tensor.device = {1, 0};
  tensor.ndim = static_cast<std::int32_t>(lent->extents.size());
  tensor.dtype = dlpack_type(type);
  tensor.shape = lent->extents.data();
  lent->managed.context = lent.get();
  lent->managed.deleter = [](managed_tensor* managed) { delete static_cast<lent_bytes*>(managed->context); };
  PyObject* capsule = PyCapsule_New(&lent->managed, untaken_name, drop_untaken);
  if (!capsule)
    throw nb::python_error();
  (void)lent.release();
  return nb::steal(capsule);
}

} // namespace

nb::object capsule_of(farandole::handle operation, dtype type, shape extents) {
  auto owner = std::make_shared<farandole::handle>(std::move(operation));
  // There is no other reader once the operation is settled, so the consumer may write to the bytes.
  auto* bytes = const_cast<std::byte*>(owner->result().bytes.data());
  return capsule_over(bytes, std::move(owner), type, std::move(extents));
}

nb::object capsule_of(result_memory& from, dtype type, std::int64_t elements) {
  const auto limit = std::numeric_limits<std::ptrdiff_t>::max() / static_cast<std::ptrdiff_t>(size_of(type));
  if (elements < 0 || elements > limit)
    throw nb::value_error("no such number of elements");
  auto block = from.take(static_cast<std::size_t>(elements) * size_of(type));
  if (!block)
    throw std::bad_alloc();
  auto owner = std::make_shared<result_memory::block>(std::move(block));
  return capsule_over(owner->get(), owner, type, {elements});
}

nb::object array_of(farandole::handle operation, dtype type, const shape& extents) {
  auto lent = std::make_unique<farandole::handle>(std::move(operation));
  void* bytes = const_cast<std::byte*>(lent->result().bytes.data());
  nb::capsule owner(lent.get(), [](void* kept) noexcept { delete static_cast<farandole::handle*>(kept); });
  (void)lent.release();
  const std::vector<std::size_t> lengths(extents.begin(), extents.end());
  const auto plain = type == dtype::bfloat16 ? dtype::uint16 : type;
  return nb::cast(
      nb::ndarray<nb::numpy>(bytes, lengths.size(), lengths.data(), owner, nullptr, dlpack_type(plain)));
}

} // namespace farandole::native
