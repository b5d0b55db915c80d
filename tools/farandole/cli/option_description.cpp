#include "tools/farandole/cli/option_description.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace farandole {

namespace {

/// The placeholder without the range that CLI11 appends to it: "INT" for "INT:INT in [1 - 65536]".
std::string placeholder(const CLI::Option& option) {
  std::string text = option.get_type_name();
  if (const auto range = text.find(" in ["); range != std::string::npos)
    text.resize(std::min(text.rfind(':', range), range));
  return text;
}

} // namespace

std::vector<std::string> option_names(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const auto& name : option.get_lnames())
    names.push_back("--" + name);
  for (const auto& name : option.get_snames())
    names.push_back("-" + name);
  if (std::find(names.begin(), names.end(), "--num-proc") != names.end())
    names.emplace_back("-np");
  return names;
}

std::vector<option_description> describe_options(const CLI::App& app) {
  std::vector<option_description> options;
  for (const auto* option : app.get_options()) {
    option_description entry;
    entry.names = option_names(*option);
    entry.heading = option->get_group(); // empty: hidden
    if (entry.names.empty() || entry.heading.empty())
      continue;
    entry.doc = option->get_description();
    // The launcher's options that may be repeated take one value each time.
    const bool takes_two = option->get_expected_min() == 2;
    entry.values = option->get_expected_min() == 0 ? 0 : takes_two ? 2 : 1;
    if (entry.values > 0)
      entry.value = placeholder(*option);
    options.push_back(std::move(entry));
  }
  return options;
}

} // namespace farandole
