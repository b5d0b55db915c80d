#include "bindings/kernels/mxnet/library.hpp"

#include <dlfcn.h>

#include <cstring>
#include <stdexcept>

#include "bindings/kernels/unsupported_dtype.hpp"
#include <farandole/farandole.h>

namespace farandole::mxnet {
namespace {

/// Stands for dmlc::Error (dmlc/logging.h). The engine copies it as its own type, so the name of this one does not
/// matter.
struct engine_error : std::runtime_error {
  using runtime_error::runtime_error;
};

/// NDArrayStorageType: neither sparse nor empty.
constexpr int dense = 0;

/// mxnet::Context::DeviceType, and mshadow's numbers for element types.
constexpr int on_gpu = 2;

std::optional<std::int32_t> dtype_from(int number) {
  switch (number) {
  case 0:
    return FARANDOLE_FLOAT32;
  case 1:
    return FARANDOLE_FLOAT64;
  case 2:
    return FARANDOLE_FLOAT16;
  case 3:
    return FARANDOLE_UINT8;
  case 4:
    return FARANDOLE_INT32;
  case 5:
    return FARANDOLE_INT8;
  case 6:
    return FARANDOLE_INT64;
  case 7:
    return FARANDOLE_BOOL;
  case 8:
    return FARANDOLE_INT16;
  case 9:
    return FARANDOLE_UINT16;
  case 12:
    return FARANDOLE_BFLOAT16;
  default:
    return std::nullopt;
  }
}

template <class Function>
bool resolve(void* from, const char* name, Function& function, std::string& problem) {
  function = reinterpret_cast<Function>(dlsym(from, name));
  if (!function)
    problem = std::string("this MXNet has no ") + name + ": Farandole needs MXNet 1.9";
  return function != nullptr;
}

/// share_memory() relies on a memory layout that no function of MXNet exposes. Checks on sample arrays that the
/// layout is the same in this library.
bool understands_views(const library& mxnet, int (*slice)(array, std::int64_t, std::int64_t, array*)) {
  constexpr std::int64_t two = 2;
  constexpr int host = 1;
  constexpr int float32 = 0;
  array whole = nullptr;
  array part = nullptr;
  array other = nullptr;
  const bool made = mxnet.create(&two, 1, host, 0, 0, float32, &whole) == 0 &&
                    mxnet.create(&two, 1, host, 0, 0, float32, &other) == 0 && slice(whole, 1, 2, &part) == 0;
  const bool right = made && share_memory(whole, part) && !share_memory(whole, other);
  for (const array numbers : {whole, part, other})
    if (numbers)
      mxnet.free(numbers);
  return right;
}

} // namespace

void completion::fail(const std::string& text) const {
  const engine_error problem(text);
  call(engine, operation, &problem);
}

std::optional<library> library::find(const char* file, std::string& problem) {
  void* loaded = dlopen(file, RTLD_NOW | RTLD_NOLOAD);
  if (!loaded) {
    problem = std::string("MXNet's library is not loaded: ") + file;
    return std::nullopt;
  }
  library found{};
  int (*slice)(array, std::int64_t, std::int64_t, array*) = nullptr;
  const bool complete = resolve(loaded, "MXGetLastError", found.last_error, problem) &&
                        resolve(loaded, "MXEnginePushAsyncND", found.push, problem) &&
                        resolve(loaded, "MXNDArrayCreateEx64", found.create, problem) &&
                        resolve(loaded, "MXShallowCopyNDArray", found.share, problem) &&
                        resolve(loaded, "MXNDArrayFree", found.free, problem) &&
                        resolve(loaded, "MXNDArrayGetShapeEx64", found.shape_of, problem) &&
                        resolve(loaded, "MXNDArrayGetDType", found.dtype_of, problem) &&
                        resolve(loaded, "MXNDArrayGetStorageType", found.storage_of, problem) &&
                        resolve(loaded, "MXNDArrayGetContext", found.device_of, problem) &&
                        resolve(loaded, "MXNDArrayGetData", found.data_of, problem) &&
                        resolve(loaded, "MXNDArraySlice64", slice, problem);
  if (!complete)
    return std::nullopt;
  if (!understands_views(found, slice)) {
    problem = "this MXNet keeps its arrays in another way than MXNet 1.9, which Farandole needs";
    return std::nullopt;
  }
  found.make_plain =
      reinterpret_cast<void (*)(void*)>(dlsym(loaded, "_ZN5mxnet7NDArray5Chunk15Reorder2DefaultEv"));
  return found;
}

std::optional<description> describe(const library& mxnet, array which, std::int32_t operation,
                                    std::string& problem) {
  int dtype = 0;
  int storage = 0;
  int dimensions = 0;
  device device_id{};
  const std::int64_t* extents = nullptr;
  if (mxnet.dtype_of(which, &dtype) != 0 || mxnet.storage_of(which, &storage) != 0 ||
      mxnet.device_of(which, &device_id.type, &device_id.number) != 0 ||
      mxnet.shape_of(which, &dimensions, &extents) != 0) {
    problem = mxnet.problem();
    return std::nullopt;
  }
  const auto rank = dtype_from(dtype);
  if (storage != dense)
    problem = "the array is sparse or has no memory; use .tostype('default')";
  else if (!rank)
    problem = kernels::unsupported_dtype_refusal(operation, "MXNet's type number " + std::to_string(dtype));
  else if (device_id.type == on_gpu)
    problem = "the array is not in host memory";
  else
    return description{*rank, {extents, extents + (dimensions > 0 ? dimensions : 0)}};
  return std::nullopt;
}

void* memory_of(array of) {
  // The first member of mxnet::NDArray points to the memory.
  void* memory = nullptr;
  std::memcpy(&memory, of, sizeof(memory));
  return memory;
}

bool share_memory(array numbers, array other) {
  return memory_of(numbers) == memory_of(other);
}

array make_like(const library& mxnet, array which, std::int64_t rows) {
  int dtype = 0;
  int dimensions = 0;
  device device_id{};
  const std::int64_t* extents = nullptr;
  if (mxnet.dtype_of(which, &dtype) != 0 || mxnet.device_of(which, &device_id.type, &device_id.number) != 0 ||
      mxnet.shape_of(which, &dimensions, &extents) != 0)
    return nullptr;
  std::vector<std::int64_t> shape(extents, extents + (dimensions > 0 ? dimensions : 0));
  if (rows >= 0 && !shape.empty())
    shape.front() = rows;
  array made = nullptr;
  mxnet.create(shape.data(), dimensions, device_id.type, device_id.number, 0, dtype, &made);
  return made;
}

} // namespace farandole::mxnet
