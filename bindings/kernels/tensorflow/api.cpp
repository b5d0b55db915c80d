#include "bindings/kernels/tensorflow/api.hpp"

#include <dlfcn.h>

#include <array>

namespace farandole::tensorflow {
namespace {

api& found() {
  static api functions;
  return functions;
}

/// The handle to look up TensorFlow's functions with. Most versions load their libraries without making the symbols
/// global. If the loader does not find a function at once, the library that `import tensorflow` has loaded is asked
/// for.
void* loaded_library() {
  if (dlsym(RTLD_DEFAULT, "TF_NewStatus"))
    return RTLD_DEFAULT;
  for (const char* name : {"libtensorflow_framework.so.2", "libtensorflow_framework.so.3"})
    if (void* library = dlopen(name, RTLD_NOW | RTLD_NOLOAD))
      return library;
  return nullptr;
}

} // namespace

const api& tf() {
  return found();
}

bool find_api(std::string& problem) {
  void* library = loaded_library();
  if (!library && !dlsym(RTLD_DEFAULT, "TF_NewStatus")) {
    problem = "TensorFlow is not loaded in this process: import tensorflow first";
    return false;
  }
  struct wanted {
    const char* name;
    void** target;
  };
  auto& functions = found();
#define FARANDOLE_TENSORFLOW_ENTRY(result, name, arguments)                                                  \
  wanted{#name, reinterpret_cast<void**>(&functions.name)},
  const std::array all = {FARANDOLE_TENSORFLOW_FUNCTIONS(FARANDOLE_TENSORFLOW_ENTRY)};
#undef FARANDOLE_TENSORFLOW_ENTRY
  for (const wanted& entry : all) {
    *entry.target = dlsym(library, entry.name);
    if (!*entry.target) {
      problem = std::string("this TensorFlow has no ") + entry.name +
                " in its C interface: TensorFlow 2.13 or later is needed";
      return false;
    }
  }
  return true;
}

} // namespace farandole::tensorflow
