#include "actors/pmi/pmix_library.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

namespace farandole {
namespace {

constexpr const char* file_name = "libpmix.so.2";

/// Folders of an installation, below the folder that a variable names.
constexpr struct {
  const char* variable;
  const char* folder;
} places[] = {
    {"PMIX_PREFIX", "/lib/openmpi/"}, {"PMIX_PREFIX", "/lib/"}, {"PMIX_PREFIX", "/lib64/"},
    {"OPAL_PREFIX", "/lib/openmpi/"}, {"OPAL_PREFIX", "/lib/"}, {"OPAL_PREFIX", "/lib64/"},
    {"OMPI_LIBDIR_LOC", "/openmpi/"}, {"OMPI_LIBDIR_LOC", "/"},
};

void* open_library() {
  if (void* loaded = ::dlopen(file_name, RTLD_NOW | RTLD_NOLOAD))
    return loaded;
  for (const auto& place : places) {
    const char* prefix = std::getenv(place.variable);
    if (prefix == nullptr || *prefix == 0)
      continue;
    const std::string path = std::string(prefix) + place.folder + file_name;
    if (void* found = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
      return found;
  }
  return ::dlopen(file_name, RTLD_NOW | RTLD_LOCAL);
}

template <class Function>
bool look_up(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

expected<pmix_library> load() {
  void* library = open_library();
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return error{
        error_kind::unimplemented,
        std::string("the library of PMIx cannot be loaded (") +
            (reason != nullptr ? reason : "it was not found") +
            "): add the folder of libpmix.so.2 of the MPI that started this process to LD_LIBRARY_PATH, or "
            "install it (Debian package libpmix2)"};
  }
  pmix_library found{};
  const bool complete =
      look_up(library, "PMIx_Init", found.initialize) && look_up(library, "PMIx_Finalize", found.finalize) &&
      look_up(library, "PMIx_Put", found.put) && look_up(library, "PMIx_Commit", found.commit) &&
      look_up(library, "PMIx_Fence", found.fence) && look_up(library, "PMIx_Get", found.get) &&
      look_up(library, "PMIx_Error_string", found.error_string);
  if (!complete)
    return error{error_kind::unimplemented,
                 "libpmix.so.2 lacks functions of PMIx: its version is not supported"};
  return found;
}

} // namespace

const expected<pmix_library>& load_pmix() {
  static const expected<pmix_library> loaded = load();
  return loaded;
}

} // namespace farandole
