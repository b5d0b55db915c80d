#include "bindings/cxx/setting_warnings.hpp"

#include <algorithm>

#include "messages/settings/known_variables.hpp"

namespace farandole {

std::vector<std::string> setting_warnings(const settings& values, const options& given, std::int32_t rank) {
  // Only the launcher hands out the secret in a descriptor.
  const bool launched = values.integer(setting::secret_descriptor) >= 0;
  if (launched || rank != 0)
    return {};
  std::vector<std::string> variables;
  if (given.read_environment)
    variables = process_variables();
  for (const auto& [name, value] : given.settings)
    if (std::find(variables.begin(), variables.end(), name) == variables.end())
      variables.push_back(name);
  std::vector<std::string> lines{no_effect_warning(values.given_without_effect()),
                                 unknown_variables_warning(variables)};
  std::erase(lines, "");
  return lines;
}

} // namespace farandole
