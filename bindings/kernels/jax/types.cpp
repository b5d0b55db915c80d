#include "bindings/kernels/jax/types.hpp"

namespace farandole::kernels {

xla::error_code code_of(farandole_status status) {
  switch (status) {
  case FARANDOLE_PRECONDITION:
  case FARANDOLE_MISMATCH:
    return xla::error_code::failed_precondition;
  case FARANDOLE_INVALID_ARGUMENT:
    return xla::error_code::invalid_argument;
  case FARANDOLE_ABORTED:
    return xla::error_code::aborted;
  case FARANDOLE_DISCONNECTED:
    return xla::error_code::unavailable;
  case FARANDOLE_OVERLOADED:
    return xla::error_code::resource_exhausted;
  case FARANDOLE_UNIMPLEMENTED:
    return xla::error_code::unimplemented;
  case FARANDOLE_TIMED_OUT:
    return xla::error_code::deadline_exceeded;
  case FARANDOLE_DISMISSED:
    return xla::error_code::permission_denied;
  case FARANDOLE_SHUT_DOWN:
    return xla::error_code::cancelled;
  case FARANDOLE_OK:
  case FARANDOLE_UNKNOWN:
    break;
  }
  return xla::error_code::unknown;
}

std::optional<farandole_dtype> dtype_of(xla::element type) {
  switch (type) {
  case xla::element::pred:
    return FARANDOLE_BOOL;
  case xla::element::s8:
    return FARANDOLE_INT8;
  case xla::element::s16:
    return FARANDOLE_INT16;
  case xla::element::s32:
    return FARANDOLE_INT32;
  case xla::element::s64:
    return FARANDOLE_INT64;
  case xla::element::u8:
    return FARANDOLE_UINT8;
  case xla::element::u16:
    return FARANDOLE_UINT16;
  case xla::element::f16:
    return FARANDOLE_FLOAT16;
  case xla::element::f32:
    return FARANDOLE_FLOAT32;
  case xla::element::f64:
    return FARANDOLE_FLOAT64;
  case xla::element::bf16:
    return FARANDOLE_BFLOAT16;
  }
  return std::nullopt;
}

std::size_t bytes_of(farandole_dtype type) {
  switch (type) {
  case FARANDOLE_UINT8:
  case FARANDOLE_INT8:
  case FARANDOLE_BOOL:
    return 1;
  case FARANDOLE_UINT16:
  case FARANDOLE_INT16:
  case FARANDOLE_FLOAT16:
  case FARANDOLE_BFLOAT16:
    return 2;
  case FARANDOLE_INT32:
  case FARANDOLE_FLOAT32:
    return 4;
  case FARANDOLE_INT64:
  case FARANDOLE_FLOAT64:
    return 8;
  }
  return 0;
}

} // namespace farandole::kernels
