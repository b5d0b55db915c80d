#include "bindings/native/array_view.hpp"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "bindings/native/raise.hpp"

namespace nb = nanobind;

namespace farandole::native {
namespace {

// The part of DLPack 1.3's exchange table that is used here; that standard fixes the layout for major version 1.
struct exchange_table {
  std::uint32_t major;
  std::uint32_t minor;
  exchange_table* older;
  void* allocate;
  void* export_managed;
  void* import_managed;
  int (*look)(void* object, nb::dlpack::dltensor* view);
  int (*current_stream)(std::int32_t device_type, std::int32_t device, void** stream);
};

// Kinds of memory by DLPack's numbers. Pinned memory is host memory, and managed memory belongs to the device that it names.
constexpr std::int32_t cpu = 1, cuda = 2, cuda_pinned = 3, cuda_managed = 13;

/// What a type of arrays offers.
struct array_type {
  PyTypeObject* type = nullptr;
  const exchange_table* table = nullptr; ///< or null
  PyObject* is_negated = nullptr;        ///< PyTorch's method is_neg(), or null
};

/// Caches the last type, because a program has one kind of tensor. The GIL guards the cache, and the references keep the
/// type's address from being reused.
const array_type& look_up(PyTypeObject* type) {
  static array_type cached;
  if (type == cached.type)
    return cached;
  const exchange_table* found = nullptr;
  const nb::handle object(reinterpret_cast<PyObject*>(type));
  nb::object capsule = nb::getattr(object, "__dlpack_c_exchange_api__", nb::none());
  if (PyCapsule_CheckExact(capsule.ptr())) {
    found = static_cast<const exchange_table*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    if (!found)
      throw nb::python_error();
    while (found && found->major > 1)
      found = found->older;
  }
  nb::object method = nb::getattr(object, "is_neg", nb::object());
  Py_INCREF(reinterpret_cast<PyObject*>(type));
  const auto replaced = std::exchange(cached, {type, found, method.release().ptr()});
  Py_XDECREF(reinterpret_cast<PyObject*>(replaced.type));
  Py_XDECREF(replaced.is_negated);
  return cached;
}

void refuse_negated(const array_type& kind, nb::handle array) {
  const auto negated = nb::steal(PyObject_CallOneArg(kind.is_negated, array.ptr()));
  if (!negated)
    throw nb::python_error();
  if (negated.is(nb::handle(Py_True)))
    raise_refusal({error_kind::unimplemented, "the tensor is negated lazily: its memory holds other values"});
}

bool has_one_element(const nb::dlpack::dltensor& view) {
  return std::all_of(view.shape, view.shape + view.ndim, [](auto extent) { return extent == 1; });
}

nb::dlpack::dltensor look_through(const exchange_table* table, nb::handle array) {
  nb::dlpack::dltensor view;
  if (table->look(array.ptr(), &view) != 0) {
    PyErr_Clear(); // the framework's text is a C++ backtrace
    raise_value_error("the tensor has no plain memory (it is sparse, or has no data): " +
                      std::string(nb::str(nb::getattr(array, "layout", nb::none())).c_str()));
  }
  return view;
}

std::optional<dtype> dtype_of(nb::dlpack::dtype type) {
  using code = nb::dlpack::dtype_code;
  if (type.lanes != 1)
    return std::nullopt;
  switch (static_cast<code>(type.code)) {
  case code::UInt:
    if (type.bits == 8)
      return dtype::uint8;
    return type.bits == 16 ? std::optional{dtype::uint16} : std::nullopt;
  case code::Int:
    switch (type.bits) {
    case 8:
      return dtype::int8;
    case 16:
      return dtype::int16;
    case 32:
      return dtype::int32;
    case 64:
      return dtype::int64;
    }
    return std::nullopt;
  case code::Float:
    switch (type.bits) {
    case 16:
      return dtype::float16;
    case 32:
      return dtype::float32;
    case 64:
      return dtype::float64;
    }
    return std::nullopt;
  case code::Bfloat:
    return type.bits == 16 ? std::optional{dtype::bfloat16} : std::nullopt;
  case code::Bool:
    return dtype::boolean;
  default:
    return std::nullopt;
  }
}

/// An extent of 1 may have any stride, and an empty array is always contiguous.
bool contiguous(const nb::dlpack::dltensor& view) {
  if (!view.strides)
    return true;
  std::int64_t expected = 1;
  bool in_order = true;
  for (std::int32_t i = view.ndim - 1; i >= 0; --i) {
    if (view.shape[i] == 0)
      return true;
    if (view.shape[i] != 1 && view.strides[i] != expected)
      in_order = false;
    expected *= view.shape[i];
  }
  return in_order;
}

void* stream_of(const exchange_table* table, std::int32_t device) {
  void* stream = nullptr;
  if (!table->current_stream)
    raise_value_error("the framework of the tensor does not say which stream works on it");
  if (table->current_stream(cuda, device, &stream) != 0)
    throw nb::python_error();
  return stream;
}

tensor_memory memory_of(const exchange_table* table, const nb::dlpack::dltensor& view) {
  switch (view.device.device_type) {
  case cpu:
  case cuda_pinned:
    return {};
  case cuda:
  case cuda_managed:
    return {view.device.device_id, stream_of(table, view.device.device_id), device_readiness::stream};
  default:
    raise_refusal({error_kind::unimplemented,
                   "the tensor is neither in host memory nor on a CUDA device; copy it to the host"});
  }
}

std::byte* start_of(const nb::dlpack::dltensor& view) {
  return static_cast<std::byte*>(view.data) + view.byte_offset;
}

constexpr const char* not_an_array = "an array must offer DLPack's exchange table or be given as (address, "
                                     "dtype, shape, owner), with (device, stream) "
                                     "behind them for the memory of a CUDA device";

bool is_described(nb::handle array) {
  return PyTuple_CheckExact(array.ptr()) &&
         (NB_TUPLE_GET_SIZE(array.ptr()) == 4 || NB_TUPLE_GET_SIZE(array.ptr()) == 6);
}

void* pointer_of(PyObject* number) {
  void* pointer = PyLong_AsVoidPtr(number);
  if (!pointer && PyErr_Occurred())
    throw nb::python_error();
  return pointer;
}

bool supports(const wanted_by& wanted, dtype type) {
  return !wanted.reduces || type != dtype::boolean;
}

[[noreturn]] void refuse_type(nb::handle array, const wanted_by& wanted) {
  std::string supported;
  for (std::uint32_t number = 0; number < dtype_count; ++number)
    if (const auto type = static_cast<dtype>(number); supports(wanted, type))
      supported.append(supported.empty() ? "" : ", ").append(to_string(type));
  const std::string given = nb::str(nb::getattr(owner_of(array), "dtype", nb::none())).c_str();
  raise_value_error(std::string(wanted.operation) + " does not support " + given +
                    " (supported: " + supported + ")");
}

array_view look_at_tuple(nb::handle described) {
  if (!is_described(described))
    raise_type_error(not_an_array);
  array_view view;
  view.data = address_of(described);
  const auto type = dtype_from(nb::cast<std::uint32_t>(nb::handle(NB_TUPLE_GET_ITEM(described.ptr(), 1))));
  if (!type)
    raise_value_error("no dtype has this number");
  view.dtype = *type;
  for (nb::handle extent : nb::handle(NB_TUPLE_GET_ITEM(described.ptr(), 2)))
    view.shape.push_back(nb::cast<std::int64_t>(extent));
  if (NB_TUPLE_GET_SIZE(described.ptr()) == 6)
    view.memory = {nb::cast<std::int32_t>(nb::handle(NB_TUPLE_GET_ITEM(described.ptr(), 4))),
                   pointer_of(NB_TUPLE_GET_ITEM(described.ptr(), 5)), device_readiness::stream};
  return view;
}

} // namespace

nb::object owner_of(nb::handle array) {
  return nb::borrow(is_described(array) ? nb::handle(NB_TUPLE_GET_ITEM(array.ptr(), 3)) : array);
}

array_view look_at(nb::handle array, const wanted_by& wanted) {
  const auto& kind = look_up(Py_TYPE(array.ptr()));
  const auto* table = kind.table;
  if (!table || !table->look) {
    array_view view = look_at_tuple(array);
    if (!supports(wanted, view.dtype))
      refuse_type(array, wanted);
    return view;
  }
  const nb::dlpack::dltensor view = look_through(table, array);
  const auto memory = memory_of(table, view);
  const auto type = dtype_of(view.dtype);
  if (!type || !supports(wanted, *type))
    refuse_type(array, wanted);
  const bool in_order = contiguous(view);
  // A tensor that is negated lazily is the imaginary part of a conjugated one, which takes every second number of its
  // memory: it is contiguous only if it has one element. Others are not asked: the method is slow, as it lets go of the GIL.
  if (kind.is_negated && (!in_order || has_one_element(view)))
    refuse_negated(kind, array);
  if (!in_order)
    raise_value_error("the tensor must be contiguous; call .contiguous() first");
  auto extents = std::move(spare_shape());
  extents.assign(view.shape, view.shape + view.ndim);
  return {start_of(view), *type, std::move(extents), memory};
}

shape& spare_shape() {
  static shape spare;
  return spare;
}

std::optional<void*> current_stream(nb::handle array, std::int32_t device) {
  const exchange_table* table = look_up(Py_TYPE(array.ptr())).table;
  return table && table->look ? std::optional{stream_of(table, device)} : std::nullopt;
}

std::byte* address_of(nb::handle array) {
  if (is_described(array)) {
    return static_cast<std::byte*>(pointer_of(NB_TUPLE_GET_ITEM(array.ptr(), 0)));
  }
  const exchange_table* table = look_up(Py_TYPE(array.ptr())).table;
  if (!table || !table->look)
    raise_type_error(not_an_array);
  return start_of(look_through(table, array));
}

} // namespace farandole::native
