#include "collectives/transport/plugin/plugin_library.hpp"

#include <dlfcn.h>

#include <map>
#include <mutex>

#include "collectives/operation.hpp"

namespace farandole {
namespace {

error unusable(const std::string& file, const std::string& reason) {
  return {error_kind::precondition,
          "FARANDOLE_CPU_PATH=plugin needs a library with a path (FARANDOLE_PATH_LIBRARY=" + file +
              "): " + reason + "; see docs/guides/paths.md"};
}

expected<const farandole_path_table*> load(const std::string& file) {
  // Only full paths are accepted, because a search along the library path could find an unintended file.
  if (file.empty() || file.front() != '/')
    return unusable(file, file.empty() ? "none is named" : "give its full path");
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return unusable(file, reason != nullptr ? reason : "it cannot be loaded");
  }
  auto* give = reinterpret_cast<farandole_path_function*>(::dlsym(library, FARANDOLE_PATH_SYMBOL));
  if (give == nullptr)
    return unusable(file, "it exports no " FARANDOLE_PATH_SYMBOL "()");
  const farandole_path_table* table = give();
  if (table == nullptr)
    return unusable(file, "its " FARANDOLE_PATH_SYMBOL "() gives no table");
  if (table->version != FARANDOLE_PATH_VERSION)
    return unusable(file, "it was built for version " + std::to_string(table->version) +
                              " of farandole/path_plugin.h, and this is " +
                              std::to_string(FARANDOLE_PATH_VERSION));
  if (!table->name || !table->open || !table->introduce || !table->connect || !table->run || !table->close)
    return unusable(file, "its table has empty places");
  return table;
}

std::string listed(const moved_operations& which, bool wanted) {
  std::string text;
  for (const auto& row : operation_table)
    if (row.id != operation::join && which[static_cast<std::size_t>(row.id)] == wanted)
      text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

} // namespace

expected<const farandole_path_table*> load_plugin_path(const std::string& file) {
  static std::mutex mutex;
  static std::map<std::string, expected<const farandole_path_table*>> loaded;
  std::lock_guard guard(mutex);
  auto found = loaded.find(file);
  if (found == loaded.end())
    found = loaded.emplace(file, load(file)).first;
  return found->second;
}

moved_operations operations_of(const farandole_path_table& library) {
  moved_operations moved{};
  for (const auto& row : operation_table)
    moved[static_cast<std::size_t>(row.id)] =
        row.id != operation::join && (library.operations >> static_cast<unsigned>(row.id) & 1U) != 0;
  return moved;
}

std::string what_falls_back(const farandole_path_table& library, const std::string& file) {
  const auto moved = operations_of(library);
  const auto text = listed(moved, true), elsewhere = listed(moved, false);
  if (elsewhere.empty())
    return {};
  return "the path " + std::string(library.name) + " (" + file + ") moves " +
         (text.empty() ? "nothing" : text) + "; Farandole's own paths move " + elsewhere;
}

} // namespace farandole
