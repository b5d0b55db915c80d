// What the stand-in for NCCL needs of the stand-in driver, and NVIDIA's driver has under other names: it puts functions
// on streams as kernels, reaches device memory, and waits for a device. None of these functions is counted, and no
// fault but that of fakeLaunch applies to them.
#include <cuda.h>

#include <vector>

#include "cuda/fake/fake_calls_testing.hpp"
#include "cuda/fake/fake_capture_testing.hpp"
#include "cuda/fake/fake_contexts_testing.hpp"
#include "cuda/fake/fake_memory_testing.hpp"
#include "cuda/fake/fake_streams_testing.hpp"

#define FAKE extern "C" __attribute__((visibility("default")))

using namespace fake;

namespace {

/// Null if there is no such stream in the context. Needs the mutex of the streams.
std::shared_ptr<CUstream_st> stream_of(streams& all, CUcontext context, CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY)
    return context->default_stream;
  auto found = all.find(handle);
  return found != nullptr && found->context == context ? found : nullptr;
}

/// Gives the work to the first stream. It begins behind the work of all streams, and their later work waits for it.
void give_to_all(streams& all, const std::vector<std::shared_ptr<CUstream_st>>& targets,
                 std::function<void()> action) {
  points behind;
  for (const auto& other : targets)
    if (other != targets.front())
      for (auto& point : all.before(other))
        behind.push_back(std::move(point));
  all.give(targets.front(), std::move(action), std::move(behind));
  for (const auto& other : targets)
    if (other != targets.front())
      all.give(other, [] {}, {{targets.front(), targets.front()->given}});
}

} // namespace

/// Puts a function on streams of a context as a kernel: it runs on the first, behind the work of all of them, and work
/// given to any of them later waits for it. `drop` is called once, on any thread, when `argument` is not needed any
/// more; if this function fails, it is not called. A stream that is captured never runs it. With `waits`, the function may
/// block until other streams have done work, so it is refused in manual mode (CUDA_ERROR_NOT_SUPPORTED): the thread
/// that runs the streams could then wait for itself.
FAKE CUresult fakeLaunch(CUcontext context, const CUstream* handles, unsigned count, int waits,
                         void (*run)(void*), void (*drop)(void*), void* argument) {
  if (const auto fault = enter("fakeLaunch"); fault != CUDA_SUCCESS)
    return fault;
  if (waits != 0 && is_manual())
    return CUDA_ERROR_NOT_SUPPORTED;
  auto& all = streams::all();
  std::shared_ptr<void> held; // a dropped kernel is released behind the mutex
  const std::lock_guard lock(all.mutex);
  std::vector<std::shared_ptr<CUstream_st>> targets;
  for (unsigned i = 0; i < count; ++i) {
    targets.push_back(stream_of(all, context, handles[i]));
    if (targets.back() == nullptr)
      return CUDA_ERROR_INVALID_HANDLE;
    if (const auto refused = refuse_beside_capture(all, *targets.back()); refused != CUDA_SUCCESS)
      return refused;
  }
  held = std::shared_ptr<void>(argument, drop);
  give_to_all(all, targets, [held, run] { run(held.get()); });
  return CUDA_SUCCESS;
}

/// The bytes of memory that a device reaches, as the stand-in reaches them, and the device whose memory it is
/// (CU_DEVICE_INVALID: any device reaches it). They stay until fakeUnreach is called with `*hold`.
FAKE CUresult fakeReach(CUdeviceptr address, std::size_t bytes, int* device, unsigned char** content,
                        void** hold) {
  reachable found;
  if (const auto result = reach(address, bytes, found); result != CUDA_SUCCESS)
    return result;
  if (found.owner == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *device =
      found.owner->type == memory_type::device ? found.owner->context->device : CUdevice{CU_DEVICE_INVALID};
  *content = found.content;
  *hold = new std::shared_ptr<const allocation>(std::move(found.owner));
  return CUDA_SUCCESS;
}

FAKE void fakeUnreach(void* hold) {
  delete static_cast<std::shared_ptr<const allocation>*>(hold);
}

/// The device of the thread's context; 0 without a context, as CUDA's runtime library takes it. A function that the
/// caller gives to atexit() later runs before the driver waits for its streams.
FAKE int fakeCurrentDevice() {
  streams::all();
  return current_context() != nullptr ? current_context()->device : 0;
}

/// Waits until all work is done that the streams of a context were given, as freeing memory does in CUDA.
FAKE void fakeContextWait(CUcontext context) {
  auto& all = streams::all();
  std::unique_lock lock(all.mutex);
  points targets{{context->default_stream, context->default_stream->given}};
  for (const auto& [handle, stream] : all.alive)
    if (stream->context == context)
      targets.push_back({stream, stream->given});
  all.wait(targets, lock);
}
