#include "cuda/fake/fake_capture_testing.hpp"

#include "cuda/fake/fake_calls_testing.hpp"

#define FAKE extern "C" __attribute__((visibility("default")))

namespace fake {

namespace {

thread_local CUstreamCaptureMode own_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/// Whether a capture forbids unsafe calls to the calling thread.
bool forbids(const CUstream_st& stream) {
  if (stream.capture == capture::none || own_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return false;
  const bool is_own = stream.capturing_thread == std::this_thread::get_id();
  return stream.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL
             ? is_own || own_mode == CU_STREAM_CAPTURE_MODE_GLOBAL
             : is_own && stream.capture_mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
}

bool is_beside(const CUstream_st& captured, const CUstream_st& stream) {
  return stream.is_default && captured.is_blocking && captured.context == stream.context &&
         captured.capture != capture::none;
}

template <class Condition>
CUresult refuse_if(streams& all, CUresult refusal, Condition condition) {
  auto result = CUDA_SUCCESS;
  for (const auto& [handle, stream] : all.alive)
    if (condition(*stream)) {
      stream->capture = capture::invalidated;
      result = refusal;
    }
  return result;
}

} // namespace

CUresult refuse_while_captured() {
  auto& all = streams::all();
  const std::lock_guard lock(all.mutex);
  return refuse_if(all, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, forbids);
}

CUresult refuse_beside_capture(streams& all, const CUstream_st& stream) {
  return refuse_if(all, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                   [&](const CUstream_st& captured) { return is_beside(captured, stream); });
}

} // namespace fake

using namespace fake;

FAKE CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (const auto fault = enter("cuThreadExchangeStreamCaptureMode"); fault != CUDA_SUCCESS)
    return fault;
  std::swap(*mode, own_mode);
  return CUDA_SUCCESS;
}

FAKE CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  if (const auto fault = enter("cuStreamBeginCapture"); fault != CUDA_SUCCESS)
    return fault;
  auto& all = streams::all();
  const std::lock_guard lock(all.mutex);
  const auto stream = all.find(handle);
  if (stream == nullptr)
    return CUDA_ERROR_INVALID_HANDLE;
  if (stream->is_default)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture != capture::none)
    return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = capture::active;
  stream->capture_mode = mode;
  stream->capturing_thread = std::this_thread::get_id();
  return CUDA_SUCCESS;
}

FAKE CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  if (const auto fault = enter("cuStreamEndCapture"); fault != CUDA_SUCCESS)
    return fault;
  auto& all = streams::all();
  const std::lock_guard lock(all.mutex);
  const auto stream = all.find(handle);
  if (stream == nullptr || stream->capture == capture::none)
    return CUDA_ERROR_ILLEGAL_STATE;
  const bool is_valid = stream->capture == capture::active;
  stream->capture = capture::none;
  *graph = nullptr; // graphs are not kept
  return is_valid ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

FAKE CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  if (const auto fault = enter("cuStreamIsCapturing"); fault != CUDA_SUCCESS)
    return fault;
  auto& all = streams::all();
  const std::lock_guard lock(all.mutex);
  const auto stream = all.find(handle);
  if (stream == nullptr)
    return CUDA_ERROR_INVALID_HANDLE;
  for (const auto& [other, captured] : all.alive)
    if (is_beside(*captured, *stream))
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT; // a question changes nothing
  *status = stream->capture == capture::none     ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->capture == capture::active ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                 : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  return CUDA_SUCCESS;
}
