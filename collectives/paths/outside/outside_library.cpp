#include "collectives/paths/outside/outside_library.hpp"

#include <dlfcn.h>

#include <map>
#include <mutex>

#include "collectives/operation.hpp"

namespace farandole {
namespace {

error unusable(const std::string& file, const std::string& why) {
  return {error_kind::precondition,
          "FARANDOLE_CPU_PATH=outside needs a library with a path (FARANDOLE_PATH_LIBRARY=" + file +
              "): " + why + "; see docs/guides/paths.md"};
}

expected<const farandole_path_table*> load(const std::string& file) {
  // By a full path alone: nobody means whatever a search finds first.
  if (file.empty() || file.front() != '/')
    return unusable(file, file.empty() ? "none is named" : "give its full path");
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    return unusable(file, why != nullptr ? why : "it cannot be loaded");
  }
  auto* give = reinterpret_cast<farandole_path_function*>(::dlsym(library, FARANDOLE_PATH_SYMBOL));
  if (give == nullptr)
    return unusable(file, "it exports no " FARANDOLE_PATH_SYMBOL "()");
  const farandole_path_table* table = give();
  if (table == nullptr)
    return unusable(file, "its " FARANDOLE_PATH_SYMBOL "() gives no table");
  if (table->version != FARANDOLE_PATH_VERSION)
    return unusable(file, "it was built for version " + std::to_string(table->version) +
                              " of farandole_path.h, and this is " + std::to_string(FARANDOLE_PATH_VERSION));
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

expected<const farandole_path_table*> load_outside_path(const std::string& file) {
  static std::mutex mutex;
  static std::map<std::string, expected<const farandole_path_table*>> loaded;
  std::lock_guard guard(mutex);
  auto known = loaded.find(file);
  if (known == loaded.end())
    known = loaded.emplace(file, load(file)).first;
  return known->second;
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
  const auto there = listed(moved, true), elsewhere = listed(moved, false);
  if (elsewhere.empty())
    return {};
  return "the path " + std::string(library.name) + " (" + file + ") moves " +
         (there.empty() ? "nothing" : there) + "; Farandole's own paths move " + elsewhere;
}

} // namespace farandole
