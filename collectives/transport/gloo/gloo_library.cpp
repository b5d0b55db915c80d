#include "collectives/transport/gloo/gloo_library.hpp"

#include <dlfcn.h>

#include <string>

#include "collectives/transport/own_folder.hpp"

namespace farandole {
namespace {

error unavailable(const std::string& reason) {
  return {
      error_kind::unimplemented,
      "FARANDOLE_CPU_PATH=gloo needs Gloo (libgloo.so.0, Debian package libgloo0) and a Farandole that was "
      "built with it (Debian package libgloo-dev): " +
          reason};
}

} // namespace

expected<gloo_open*> load_gloo_from(const char* name) {
  // RTLD_DEEPBIND makes the module prefer its own libgloo to the global symbols of the process. Sanitizers do
  // not support that flag.
  const bool sanitized =
      ::dlsym(RTLD_DEFAULT, "__asan_init") != nullptr || ::dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr;
  // Full paths: dlopen() searches for a plain name on behalf of its caller, and under a sanitizer the caller
  // is the sanitizer's library.
  void* module = nullptr;
  std::string reason;
  for (const auto* folder : {"", "../lib/"})
    if (module == nullptr) {
      module = ::dlopen((own_folder() + folder + name).c_str(),
                        RTLD_NOW | RTLD_LOCAL | (sanitized ? 0 : RTLD_DEEPBIND));
      if (module == nullptr)
        reason += (reason.empty() ? "" : "; ") + std::string(::dlerror());
    }
  if (module == nullptr)
    return unavailable(reason);
  auto* open = reinterpret_cast<gloo_open*>(::dlsym(module, gloo_open_name));
  if (open == nullptr)
    return unavailable(std::string("it lacks ") + gloo_open_name);
  return open;
}

const expected<gloo_open*>& load_gloo() {
  static const expected<gloo_open*> loaded = load_gloo_from(gloo_module_name);
  return loaded;
}

} // namespace farandole
