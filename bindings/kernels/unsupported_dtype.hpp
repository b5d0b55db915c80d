// The message about a tensor whose element type an operation does not support, the same in all kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "messages/values/dtype_names.hpp"
#include <farandole/farandole.h>

namespace farandole::kernels {

/// The operation, as callers know it.
inline const char* name_of(std::int32_t operation) {
  switch (operation) {
  case FARANDOLE_ALLREDUCE:
    return "allreduce";
  case FARANDOLE_ALLGATHER:
    return "allgather";
  case FARANDOLE_BROADCAST:
    return "broadcast";
  case FARANDOLE_ALLTOALL:
    return "alltoall";
  case FARANDOLE_REDUCESCATTER:
    return "reducescatter";
  default:
    return "this operation";
  }
}

/// "uint8, int8, …": the element types that an operation supports.
inline std::string supported_dtypes(bool reduces) {
  std::string names;
  for (std::size_t i = 0; i < dtype_count; ++i) {
    if (reduces && static_cast<dtype>(i) == dtype::boolean)
      continue;
    names += names.empty() ? "" : ", ";
    names += dtype_names[i];
  }
  return names;
}

/// `dtype` names the type as the framework does.
inline std::string unsupported_dtype_refusal(std::int32_t operation, const std::string& dtype) {
  const bool reduces = operation == FARANDOLE_ALLREDUCE || operation == FARANDOLE_REDUCESCATTER;
  return std::string(name_of(operation)) + " does not support " + dtype +
         " (supported: " + supported_dtypes(reduces) + ")";
}

} // namespace farandole::kernels
