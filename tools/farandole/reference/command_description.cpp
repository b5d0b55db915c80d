#include "tools/farandole/reference/command_description.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace farandole {

value_kind kind_of_value(const option_description& option) {
  if (!option.choices.empty())
    return value_kind::choice;
  if (option.value == "FOLDER")
    return value_kind::folder;
  // Some settings that are texts name files, and an option whose value can be a file completes best to one.
  constexpr std::array<std::string_view, 3> files = {"FILE", "TEXT", "NAME|PATH"};
  return std::find(files.begin(), files.end(), option.value) != files.end() ? value_kind::file
                                                                            : value_kind::unknown;
}

} // namespace farandole
