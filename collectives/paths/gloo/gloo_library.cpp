#include "collectives/paths/gloo/gloo_library.hpp"

#include <dlfcn.h>

#include <string>

namespace farandole {
namespace {

error unavailable() {
  const char* why = ::dlerror();
  return {error_kind::unimplemented,
          std::string(
              "FARANDOLE_CPU_PATH=gloo needs Gloo (libgloo.so.0, Debian package libgloo0) and a Farandole "
              "that was built with it (Debian package libgloo-dev): ") +
              (why != nullptr ? why : "it cannot be loaded")};
}

} // namespace

expected<gloo_open*> load_gloo_from(const char* name) {
  // The module's own libgloo goes before whatever the process shows to all; a sanitizer cannot bear that.
  const bool sanitized = ::dlsym(RTLD_DEFAULT, "__asan_init") != nullptr;
  void* module = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | (sanitized ? 0 : RTLD_DEEPBIND));
  if (module == nullptr)
    return unavailable();
  auto* open = reinterpret_cast<gloo_open*>(::dlsym(module, gloo_open_name));
  if (open == nullptr)
    return unavailable();
  return open;
}

const expected<gloo_open*>& load_gloo() {
  static const expected<gloo_open*> loaded = load_gloo_from(gloo_module_name);
  return loaded;
}

} // namespace farandole
