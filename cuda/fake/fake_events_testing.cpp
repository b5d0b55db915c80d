// The functions of the stand-in driver that make, order and wait for streams and events.
#include <cuda.h>

#include "cuda/fake/fake_calls_testing.hpp"
#include "cuda/fake/fake_capture_testing.hpp"
#include "cuda/fake/fake_contexts_testing.hpp"
#include "cuda/fake/fake_streams_testing.hpp"

#define FAKE extern "C" __attribute__((visibility("default")))

using namespace fake;

namespace {

std::shared_ptr<CUevent_st> find_event(streams& all, CUevent handle) {
  const auto found = all.events.find(handle);
  return found != all.events.end() ? found->second : nullptr;
}

CUresult wait_for(const char* function, CUstream handle) {
  if (const auto fault = enter(function); fault != CUDA_SUCCESS)
    return fault;
  auto& all = streams::all();
  std::unique_lock lock(all.mutex);
  const auto stream = all.find(handle);
  return stream != nullptr ? all.wait(all.before(stream), lock) : CUDA_ERROR_INVALID_HANDLE;
}

/// Where all work of a context is done.
points whole_context(streams& all, CUcontext context) {
  points result{{context->default_stream, context->default_stream->given}};
  for (const auto& [handle, stream] : all.alive)
    if (stream->context == context)
      result.push_back({stream, stream->given});
  return result;
}

} // namespace

FAKE CUresult cuStreamCreateWithPriority(CUstream* handle, unsigned flags, int) {
  if (const auto fault = enter("cuStreamCreateWithPriority"); fault != CUDA_SUCCESS)
    return fault;
  if (current_context() == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  auto stream = std::make_shared<CUstream_st>();
  stream->context = current_context();
  stream->is_blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
  *handle = stream.get();
  auto& all = streams::all();
  const std::lock_guard lock(all.mutex);
  all.created.push_back(*handle);
  all.alive.emplace(*handle, std::move(stream));
  return CUDA_SUCCESS;
}

FAKE CUresult cuStreamCreate(CUstream* handle, unsigned flags) {
  const auto fault = enter("cuStreamCreate");
  return fault != CUDA_SUCCESS ? fault : cuStreamCreateWithPriority(handle, flags, 0);
}

/// Returns at once; its work goes on.
FAKE CUresult cuStreamDestroy(CUstream handle) {
  if (const auto fault = enter("cuStreamDestroy"); fault != CUDA_SUCCESS)
    return fault;
  auto& all = streams::all();
  const std::lock_guard lock(all.mutex);
  const auto found = all.alive.find(handle);
  if (found == all.alive.end())
    return CUDA_ERROR_INVALID_HANDLE;
  found->second->is_destroyed = true;
  if (is_manual() && !found->second->queue.empty())
    all.destroyed.push_back(found->second);
  all.alive.erase(found);
  all.changed.notify_all();
  return CUDA_SUCCESS;
}

FAKE CUresult cuStreamSynchronize(CUstream handle) {
  return wait_for("cuStreamSynchronize", handle);
}

FAKE CUresult cuCtxSynchronize() {
  if (const auto fault = enter("cuCtxSynchronize"); fault != CUDA_SUCCESS)
    return fault;
  if (current_context() == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  auto& all = streams::all();
  std::unique_lock lock(all.mutex);
  return all.wait(whole_context(all, current_context()), lock);
}

FAKE CUresult cuStreamQuery(CUstream handle) {
  if (const auto fault = enter("cuStreamQuery"); fault != CUDA_SUCCESS)
    return fault;
  auto& all = streams::all();
  const std::lock_guard lock(all.mutex);
  const auto stream = all.find(handle);
  if (stream == nullptr)
    return CUDA_ERROR_INVALID_HANDLE;
  return reached(all.before(stream)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

FAKE CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  if (const auto fault = enter("cuStreamWaitEvent"); fault != CUDA_SUCCESS)
    return fault;
  auto& all = streams::all();
  const std::lock_guard lock(all.mutex);
  const auto stream = all.find(handle);
  const auto found = find_event(all, event);
  if (stream == nullptr || found == nullptr)
    return CUDA_ERROR_INVALID_HANDLE;
  if (const auto refused = refuse_beside_capture(all, *stream); refused != CUDA_SUCCESS)
    return refused;
  if (stream->capture != capture::none) { // no event here is part of a capture
    stream->capture = capture::invalidated;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  all.give(
      stream, [] {}, found->recorded);
  return CUDA_SUCCESS;
}

FAKE CUresult cuEventCreate(CUevent* handle, unsigned) {
  if (const auto fault = enter("cuEventCreate"); fault != CUDA_SUCCESS)
    return fault;
  if (current_context() == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  auto event = std::make_shared<CUevent_st>();
  event->context = current_context();
  *handle = event.get();
  auto& all = streams::all();
  const std::lock_guard lock(all.mutex);
  all.events.emplace(*handle, std::move(event));
  return CUDA_SUCCESS;
}

FAKE CUresult cuEventDestroy(CUevent handle) {
  if (const auto fault = enter("cuEventDestroy"); fault != CUDA_SUCCESS)
    return fault;
  auto& all = streams::all();
  const std::lock_guard lock(all.mutex);
  return all.events.erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

FAKE CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  if (const auto fault = enter("cuEventRecord"); fault != CUDA_SUCCESS)
    return fault;
  auto& all = streams::all();
  const std::lock_guard lock(all.mutex);
  const auto stream = all.find(stream_handle);
  const auto event = find_event(all, handle);
  if (stream == nullptr || event == nullptr || stream->context != event->context)
    return CUDA_ERROR_INVALID_HANDLE;
  if (const auto refused = refuse_beside_capture(all, *stream); refused != CUDA_SUCCESS)
    return refused;
  event->recorded = all.before(stream);
  return CUDA_SUCCESS;
}

FAKE CUresult cuCtxRecordEvent(CUcontext context, CUevent handle) {
  if (const auto fault = enter("cuCtxRecordEvent"); fault != CUDA_SUCCESS)
    return fault;
  auto& all = streams::all();
  const std::lock_guard lock(all.mutex);
  const auto event = find_event(all, handle);
  if (event == nullptr || context != event->context)
    return CUDA_ERROR_INVALID_HANDLE;
  auto result = CUDA_SUCCESS;
  for (const auto& [other, stream] : all.alive)
    if (stream->context == context && stream->capture != capture::none) {
      stream->capture = capture::invalidated;
      result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  if (result == CUDA_SUCCESS)
    event->recorded = whole_context(all, context);
  return result;
}

FAKE CUresult cuEventQuery(CUevent handle) {
  if (const auto fault = enter("cuEventQuery"); fault != CUDA_SUCCESS)
    return fault;
  auto& all = streams::all();
  const std::lock_guard lock(all.mutex);
  const auto event = find_event(all, handle);
  if (event == nullptr)
    return CUDA_ERROR_INVALID_HANDLE;
  return reached(event->recorded) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

FAKE CUresult cuEventSynchronize(CUevent handle) {
  if (const auto fault = enter("cuEventSynchronize"); fault != CUDA_SUCCESS)
    return fault;
  auto& all = streams::all();
  std::unique_lock lock(all.mutex);
  const auto event = find_event(all, handle);
  return event != nullptr ? all.wait(points(event->recorded), lock) : CUDA_ERROR_INVALID_HANDLE;
}
