// The capture of streams into graphs, as far as it decides which calls of the driver fail.
#pragma once

#include <cuda.h>

#include "cuda/fake/fake_streams_testing.hpp"

namespace fake {

/// For a call that CUDA does not allow while a stream is captured, such as an allocation: fails, and invalidates the
/// captures, unless the thread has allowed it (cuThreadExchangeStreamCaptureMode).
CUresult refuse_while_captured();

/// For work of the default stream while a blocking stream is captured: fails, and invalidates the capture. Needs the
/// mutex of the streams.
CUresult refuse_beside_capture(streams& all, const CUstream_st& stream);

} // namespace fake
