#include "collectives/transport/ccl/ccl_library.hpp"

#include <unistd.h>

#include "collectives/transport/own_folder.hpp"
#include "collectives/transport/plugin/plugin_library.hpp"

namespace farandole {
namespace {

constexpr const char* file_name = "libfarandole_ccl.so";
/// Folders to search, relative to the folder of the program or library that contains this code.
constexpr const char* search_folders[] = {"", "../lib/"};

} // namespace

expected<std::string> find_ccl_module() {
  const std::string folder = own_folder();
  for (const char* subfolder : search_folders)
    if (std::string path = folder + subfolder + file_name; ::access(path.c_str(), R_OK) == 0)
      return path;
  return error{
      error_kind::unimplemented,
      "FARANDOLE_CPU_PATH=ccl (or HOROVOD_CPU_OPERATIONS=ccl) needs a Farandole that was built with "
      "oneCCL, and this installation has no " +
          std::string(file_name) +
          ": run tools/setup --with-ccl, or build with the CMake variable FARANDOLE_CCL_ROOT, a folder "
          "with the contents of the wheels oneccl-devel and intel-cmplr-lib-rt; see "
          "docs/decisions/0011-oneccl-as-a-plugin.md"};
}

bool ccl_works() {
  const auto module = find_ccl_module();
  return module && load_plugin_path(*module);
}

} // namespace farandole
