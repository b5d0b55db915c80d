#include "tools/farandole/run_options.hpp"

#include <algorithm>
#include <string>

#include "messages/settings/settings.hpp"
#include "tools/farandole/help_layout.hpp"

namespace farandole {

namespace {

std::vector<std::string> parts_of(std::string_view choices) {
  std::vector<std::string> parts;
  while (!choices.empty()) {
    const auto bar = std::min(choices.find('|'), choices.size());
    parts.emplace_back(choices.substr(0, bar));
    choices.remove_prefix(std::min(bar + 1, choices.size()));
  }
  return parts;
}

} // namespace

std::vector<option_description> described_for_run(const CLI::App& app) {
  auto options = describe_options(app);
  for (auto& option : options) {
    const char* alias = alias_of(option.names.front());
    if (alias && std::find(option.names.begin(), option.names.end(), alias) == option.names.end())
      option.names.emplace_back(alias);
    for (const auto& row : setting_table())
      if (!row.flag.empty() && row.flag == option.names.front())
        option.choices = parts_of(row.choices);
  }
  return options;
}

} // namespace farandole
