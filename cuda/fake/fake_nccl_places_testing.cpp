#include "cuda/fake/fake_nccl_places_testing.hpp"

#include <chrono>

#include "cuda/fake/fake_nccl_calls_testing.hpp"

#define FAKE extern "C" __attribute__((visibility("default")))

namespace fake_nccl {

namespace {

std::size_t index(int device) {
  return static_cast<std::size_t>(device) % kernel_places::most_devices;
}

} // namespace

kernel_places& kernel_places::all() {
  static auto& all = *new kernel_places;
  return all;
}

void kernel_places::launch(int device) {
  const std::lock_guard lock(mutex_);
  ++launched_;
  ++unfinished_[index(device)];
}

void kernel_places::drop(int device) {
  const std::lock_guard lock(mutex_);
  --unfinished_[index(device)];
  changed_.notify_all();
}

bool kernel_places::begin(int device) {
  std::unique_lock lock(mutex_);
  auto& running = running_[index(device)];
  changed_.wait(lock, [&] { return is_closed_ || running < resident_kernels(); });
  ++running;
  changed_.notify_all();
  return !is_closed_;
}

void kernel_places::end(int device) {
  const std::lock_guard lock(mutex_);
  --running_[index(device)];
  --unfinished_[index(device)];
  changed_.notify_all();
}

void kernel_places::wait_until_idle(int device) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_closed_ || unfinished_[index(device)] == 0; });
}

bool kernel_places::wait_for_running(int device, unsigned count, unsigned milliseconds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                           [&] { return running_[index(device)] == count; });
}

unsigned long kernel_places::launched() {
  const std::lock_guard lock(mutex_);
  return launched_;
}

unsigned kernel_places::running(int device) {
  const std::lock_guard lock(mutex_);
  return running_[index(device)];
}

unsigned kernel_places::unfinished(int device) {
  const std::lock_guard lock(mutex_);
  return unfinished_[index(device)];
}

void kernel_places::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

bool kernel_places::is_closed() {
  const std::lock_guard lock(mutex_);
  return is_closed_;
}

} // namespace fake_nccl

using fake_nccl::kernel_places;

/// How many kernels this process has launched.
FAKE unsigned long fakeNcclKernelsLaunched() {
  return kernel_places::all().launched();
}

/// How many kernels have begun on a device and not ended.
FAKE unsigned fakeNcclKernelsRunning(int device) {
  return kernel_places::all().running(device);
}

/// How many kernels were launched on a device and have not ended.
FAKE unsigned fakeNcclKernelsUnfinished(int device) {
  return kernel_places::all().unfinished(device);
}

/// Waits until so many kernels run on a device, for a limited time. Returns whether they do.
FAKE int fakeNcclWaitForKernels(int device, unsigned count, unsigned milliseconds) {
  return kernel_places::all().wait_for_running(device, count, milliseconds) ? 1 : 0;
}
