#include "tools/farandole/ignored_options.hpp"

#include <CLI/CLI.hpp>

namespace farandole {

namespace {

struct ignored_option {
  const char* name;
  const char* short_name; ///< "": none
  const char* doc;
  const char* type;
};

// These options configure launches by mpirun, which are not supported yet.
constexpr ignored_option ignored_options[] = {
    {"--mpi-args", "", "Arguments for mpirun; write --mpi-args=\"...\".", "TEXT"},
    {"--binding-args", "", "Arguments that bind processes to cores, for mpirun.", "TEXT"},
};

std::string joined(const ignored_option& row, const char* separator) {
  const std::string short_name(row.short_name);
  return (short_name.empty() ? short_name : short_name + separator) + row.name;
}

} // namespace

void add_ignored_options(CLI::App& app) {
  for (const auto& row : ignored_options)
    app.add_option(joined(row, ","), row.doc)->group(ignored_group)->type_name(row.type);
}

std::vector<std::string> ignored_names(const CLI::App& app, const settings& values) {
  auto names = values.given_without_effect();
  for (const auto& row : ignored_options)
    if (app.count(row.name) > 0)
      names.push_back(joined(row, "/"));
  return names;
}

} // namespace farandole
