#include "collectives/transport/mpi/mpi_library.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <string>

#include "collectives/transport/own_folder.hpp"

namespace farandole {
namespace {

constexpr const char* file_name = "libfarandole_mpi.so";
/// Relative to the folder of the program or library that contains this code.
constexpr const char* search_folders[] = {"", "../lib/farandole/"};

/// The full path of the module; empty if it is not installed.
std::string find_module() {
  const std::string folder = own_folder();
  for (const char* subfolder : search_folders)
    if (std::string path = folder + subfolder + file_name; ::access(path.c_str(), R_OK) == 0)
      return path;
  return {};
}

error unavailable(const std::string& reason) {
  return {error_kind::unimplemented, "MPI cannot be used: " + reason};
}

std::string loader_says() {
  const char* reason = ::dlerror();
  return reason != nullptr ? reason : "it cannot be loaded";
}

expected<const mpi_module*> load() {
  const std::string path = find_module();
  if (path.empty())
    return unavailable(std::string("this installation of Farandole has no ") + file_name +
                       "; build it where MPI is installed (Debian package libopenmpi-dev)");
  // Open MPI's components find its symbols only in the global scope of the process. If another MPI was linked
  // in, this call finds no library, and the module loads its own.
  ::dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return unavailable(loader_says());
  const auto entry = reinterpret_cast<mpi_module_entry>(::dlsym(library, mpi_module_symbol));
  if (entry == nullptr || entry()->version != mpi_module_version)
    return unavailable(path + " belongs to another version of Farandole");
  return entry();
}

} // namespace

bool mpi_is_installed() {
  return !find_module().empty();
}

const expected<const mpi_module*>& load_mpi() {
  static const expected<const mpi_module*> loaded = load();
  return loaded;
}

} // namespace farandole
