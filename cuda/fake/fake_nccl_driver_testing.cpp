#include "cuda/fake/fake_nccl_driver_testing.hpp"

#include <dlfcn.h>

#include <mutex>

// With the version that the header has selected: "cuDevicePrimaryCtxRelease_v2".
#define NAME_OF(function) NAME_AS_TEXT(function)
#define NAME_AS_TEXT(function) #function

namespace fake_nccl {

namespace {

template <class Function>
bool find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  return function != nullptr;
}

const driver* look_up() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr)
    return nullptr;
  static driver found;
  const bool is_complete = find(library, NAME_OF(cuDevicePrimaryCtxRetain), found.retain_context) &&
                           find(library, NAME_OF(cuDevicePrimaryCtxRelease), found.release_context) &&
                           find(library, "fakeLaunch", found.launch) &&
                           find(library, "fakeReach", found.reach) &&
                           find(library, "fakeUnreach", found.unreach) &&
                           find(library, "fakeCurrentDevice", found.current_device) &&
                           find(library, "fakeContextWait", found.wait_for_context);
  return is_complete ? &found : nullptr;
}

} // namespace

const driver* driver::loaded() {
  static std::mutex mutex;
  static const driver* found = nullptr; // looked for again until the process has loaded it
  const std::lock_guard lock(mutex);
  if (found == nullptr)
    found = look_up();
  return found;
}

} // namespace fake_nccl
