#include "collectives/transport/own_folder.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

namespace farandole {

std::string own_folder() {
  Dl_info own{};
  std::string file;
  if (::dladdr(reinterpret_cast<void*>(&own_folder), &own) != 0 && own.dli_fname != nullptr)
    file = own.dli_fname;
  std::error_code none; // for a program, dladdr() gives argv[0], which may have been found on PATH
  if (file.find('/') == std::string::npos)
    file = std::filesystem::read_symlink("/proc/self/exe", none);
  const auto full = std::filesystem::absolute(file, none).string();
  return full.substr(0, full.rfind('/') + 1);
}

} // namespace farandole
