// Feeds arbitrary texts as settings: environment variables, including those by which launchers tell a process
// its rank, and the settings in a welcome of the rendezvous. A line "NAME=value" is a variable, a line "name:
// value" is a setting of the welcome. Every value must stay in its range, and a welcome must change only
// job-wide settings.
#include <map>

#include "elastic/foreign_launch.hpp"
#include "messages/settings/settings.hpp"
#include "tests/fuzz/choices.hpp"

using namespace farandole;

namespace {

void check_ranges(const settings& values) {
  for (const auto& row : setting_table()) {
    require(!values.plain(row.id).empty() || row.type == setting_type::text);
    if (row.type != setting_type::integer)
      continue;
    const auto value = static_cast<double>(values.integer(row.id));
    require(!values.is_set(row.id) || (value >= row.minimum && value <= row.limit));
  }
}

void check_launch(const environment_lookup& environment) {
  const auto launch = find_foreign_launch(environment);
  static_cast<void>(place_in_environment(environment));
  if (!launch)
    return;
  require(launch->rank >= -1 && launch->size >= 0);
  // The numbers must be those of the variables, without overflow.
  if (launch->rank >= 0)
    require(std::strtoll(environment(launch->rank_variable)->c_str(), nullptr, 10) == launch->rank);
  if (launch->size > 0)
    require(std::strtoll(environment(launch->size_variable)->c_str(), nullptr, 10) == launch->size);
  require(!launch->text().empty());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::map<std::string, std::string, std::less<>> variables;
  std::vector<std::pair<std::string, std::string>> handed_out;
  auto text = text_of(std::as_bytes(std::span(data, size)));
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (const auto equals = line.find('='); equals != std::string_view::npos)
      variables.emplace(line.substr(0, equals), line.substr(equals + 1));
    else if (const auto colon = line.find(": "); colon != std::string_view::npos)
      handed_out.emplace_back(line.substr(0, colon), line.substr(colon + 2));
  }
  const environment_lookup environment = [&](std::string_view name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  check_launch(environment);
  auto values = settings::load({environment, {}, {}});
  if (!values)
    return require(!values.error().text.empty()), 0;
  check_ranges(*values);
  const auto before = *values;
  static_cast<void>(values->override_with(handed_out));
  check_ranges(*values);
  for (const auto& row : setting_table())
    require(row.job_wide || values->plain(row.id) == before.plain(row.id));
  return 0;
}
