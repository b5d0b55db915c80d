#include "cuda/nccl/nccl_facts.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <utility>

namespace farandole {

namespace {

constexpr const char* file_name = "libnccl.so.2";
/// From 2.9.0 on, version codes have five digits.
constexpr int first_long_code = 10000;
/// The communicators of earlier ones do not report their state without blocking.
constexpr int oldest_version = 21801;

using get_version = int (*)(int*); // ncclGetVersion; 0 is ncclSuccess

expected<nccl_facts> describe(void* library, const std::string& candidate) {
  const auto version_of = reinterpret_cast<get_version>(::dlsym(library, "ncclGetVersion"));
  nccl_facts facts;
  if (version_of == nullptr || version_of(&facts.version) != 0)
    return error{error_kind::unimplemented, candidate + ": it does not report a version"};
  Dl_info found{};
  const bool known = ::dladdr(reinterpret_cast<void*>(version_of), &found) != 0 && found.dli_fname != nullptr;
  facts.path = known ? found.dli_fname : candidate;
  if (facts.version < oldest_version)
    return error{error_kind::unimplemented, "NCCL " + nccl_version_text(facts.version) + " (" + facts.path +
                                                ") is too old: Farandole needs NCCL " +
                                                nccl_version_text(oldest_version) + " or later"};
  return facts;
}

/// The file that the user's own variables name, if it exists: they may have been set for a build. They come from the
/// process's environment alone, because they name code to load.
std::string file_of_user() {
  std::error_code problem;
  for (const auto& [variable, below] : {std::pair{"HOROVOD_NCCL_LIB", ""}, {"HOROVOD_NCCL_HOME", "lib"}})
    if (const char* folder = std::getenv(variable))
      if (const auto file = std::filesystem::path(folder) / below / file_name;
          std::filesystem::exists(file, problem))
        return file.string();
  return {};
}

expected<nccl_facts> load(const std::string& file) {
  if (void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
    return describe(library, file);
  const char* text = ::dlerror();
  return error{error_kind::unimplemented, text != nullptr ? text : file};
}

} // namespace

std::string nccl_version_text(int version) {
  const int unit = version >= first_long_code ? 10000 : 1000;
  return std::to_string(version / unit) + "." + std::to_string(version % unit / 100) + "." +
         std::to_string(version % 100);
}

expected<nccl_facts> find_nccl(const std::vector<std::string>& candidates) {
  auto files = candidates;
  if (const auto chosen = file_of_user(); !chosen.empty())
    files = {chosen};
  else if (void* loaded = ::dlopen(file_name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD))
    return describe(loaded, file_name);
  std::string reasons;
  for (const auto& file : files) {
    auto facts = load(file);
    if (facts)
      return facts;
    reasons += (reasons.empty() ? "" : "; ") + facts.error().text;
  }
  return error{error_kind::unimplemented, "there is no NCCL (" + reasons + ")"};
}

} // namespace farandole
