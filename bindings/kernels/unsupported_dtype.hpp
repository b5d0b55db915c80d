// The message about a tensor whose element type an operation does not support, the same in all kernels.
#pragma once

#include <cstdint>
#include <string>

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

/// `dtype` names the type as the framework does.
inline std::string unsupported_dtype_refusal(std::int32_t operation, const std::string& dtype) {
  const bool reduces = operation == FARANDOLE_ALLREDUCE || operation == FARANDOLE_REDUCESCATTER;
  return std::string(name_of(operation)) + " does not support " + dtype +
         " (supported: uint8, int8, uint16, int16, int32, int64, float16, bfloat16, float32, float64" +
         std::string(reduces ? "" : ", bool") + ")";
}

} // namespace farandole::kernels
