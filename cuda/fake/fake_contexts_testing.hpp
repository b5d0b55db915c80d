// The contexts of the stand-in driver, and the context that is current in each thread.
#pragma once

#include <cuda.h>

#include <memory>

struct CUctx_st {
  int device = 0;
  unsigned retained = 0;                       ///< of a primary context
  std::shared_ptr<CUstream_st> default_stream; ///< the legacy one
};

namespace fake {

/// Null if the thread has none.
CUcontext current_context();
int device_count();

} // namespace fake
