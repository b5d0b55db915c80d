// Inspects an array of any framework without being compiled against one: its address, data type and shape. Arrays
// that offer DLPack's C exchange table (torch from 2.10 on, among others) cost one C call; any other adapter passes
// a tuple (address, dtype number, shape, owner) instead, in which (device, stream) follow if the array is in the memory of
// a CUDA device. Arrays that the core cannot move are refused here.
#pragma once

#include "bindings/native/nanobind.hpp"

#include <cstddef>
#include <optional>
#include <string_view>

#include "messages/values/device.hpp"
#include "messages/values/dtype.hpp"
#include "messages/values/signature.hpp"

namespace farandole::native {

struct array_view {
  std::byte* data = nullptr;
  farandole::dtype dtype = farandole::dtype::float32;
  farandole::shape shape;
  tensor_memory memory;
};

/// The operation that an array is for, as error messages name it.
struct wanted_by {
  std::string_view operation; ///< "allreduce"
  bool reduces = false;       ///< whether it computes with the elements, which excludes bool
};

/// Raises ValueError (as nanobind::python_error) for a type that the operation does not support, a layout that is not
/// contiguous and memory that is neither the host's nor CUDA's, and NotImplementedError for a tensor of PyTorch that is
/// negated lazily. A tensor in CUDA's memory is ready when the current stream
/// of its framework has done its work so far. The view is valid as long as `array` lives and is not
/// resized.
array_view look_at(nanobind::handle array, const wanted_by& wanted);

/// A shape whose memory look_at() uses for the next one. The GIL guards it.
shape& spare_shape();

/// The current stream of the array's framework on this device, a CUstream. Nothing for a description.
std::optional<void*> current_stream(nanobind::handle array, std::int32_t device);

/// Only the address, for outputs whose type and shape are known from their input.
std::byte* address_of(nanobind::handle array);

/// The framework's own object: the array itself, or the last item of its description.
nanobind::object owner_of(nanobind::handle array);

} // namespace farandole::native
