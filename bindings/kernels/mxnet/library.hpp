// The part of MXNet 1.x that collectives need: a few functions of its C interface, looked up in the libmxnet that the
// process has loaded, so that the build does not need MXNet. The declarations mirror mxnet/c_api.h, mxnet/engine.h,
// mxnet/base.h and mshadow/base.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace farandole::mxnet {

/// An NDArrayHandle: a reference to memory with a shape, which several may share.
using array = void*;

/// mxnet::engine::CallbackOnComplete: what an operation of the engine calls, once, when it has ended.
struct completion {
  void (*call)(void* engine, void* operation, const void* error);
  void* engine;
  void* operation;

  void succeed() const { call(engine, operation, nullptr); }

  /// Threads that wait for an array which the operation writes get a MXNetError of this text.
  void fail(const std::string& text) const;
};

/// mxnet::Context
struct device {
  std::int32_t type;
  std::int32_t number;
};

using engine_function = void (*)(void* run_context, void* completion, void* parameter);
using parameter_deleter = void (*)(void* parameter);

struct library {
  using call_one = int (*)(array);
  using call_number = int (*)(array, int*);

  const char* (*last_error)();
  int (*push)(engine_function, void* parameter, parameter_deleter, const void* device, array* read,
              int read_count, array* written, int written_count, const void* property, int priority,
              const char* name, bool wait);
  int (*create)(const std::int64_t* shape, int dimensions, int device_type, int device_number,
                int delay_allocation, int dtype, array* created);
  int (*share)(array, array* shared);
  call_one free;
  int (*shape_of)(array, int* dimensions, const std::int64_t** shape);
  call_number dtype_of;
  call_number storage_of;
  int (*device_of)(array, int* type, int* number);
  int (*data_of)(array, void** data);
  /// mxnet::NDArray::Chunk::Reorder2Default: brings an array's memory_of() into row-major order, if oneDNN has left
  /// it in a layout of its own. Only for an operation of the engine that writes the array. Null in builds without
  /// oneDNN.
  void (*make_plain)(void* memory);

  /// The functions of the library that was loaded from this file; none, with the reason, if one is missing.
  static std::optional<library> find(const char* file, std::string& problem);

  /// The error of the last call on this thread.
  std::string problem() const { return last_error(); }
};

/// The properties of an array that the core needs.
struct description {
  std::int32_t dtype; // a farandole_dtype
  std::vector<std::int64_t> shape;
};

/// None, with the reason in `problem`, for arrays that the operation does not support.
std::optional<description> describe(const library& mxnet, array which, std::int32_t operation,
                                    std::string& problem);

/// The mxnet::NDArray::Chunk of an array.
void* memory_of(array of);

/// Whether two arrays are views of the same memory, for which the engine keeps one queue.
bool share_memory(array numbers, array other);

/// A new array like this one, on the same device; `rows`: its first extent, -1 for the same.
array make_like(const library& mxnet, array which, std::int64_t rows);

} // namespace farandole::mxnet
