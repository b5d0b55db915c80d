#include "tools/farandole/cli/arguments.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "messages/values/nearest_name.hpp"

namespace farandole {

namespace {

error wrong(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

bool is_number(std::string_view text) {
  if (text.starts_with('-'))
    text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos;
}

/// A word that starts an option; negative numbers, "-" and texts with spaces (but in the value) are values.
bool looks_like_option(std::string_view word) {
  const auto name = word.substr(0, word.find('='));
  return word.size() > 1 && word.front() == '-' && !is_number(word) &&
         name.find(' ') == std::string_view::npos;
}

std::vector<std::string> names_of(const option_shape& shape) {
  std::vector<std::string> names{shape.name};
  names.insert(names.end(), shape.aliases.begin(), shape.aliases.end());
  return names;
}

struct match {
  const option_shape* shape = nullptr;
  std::string name; ///< as registered
  std::optional<std::string> value;
};

const option_shape* exact(std::span<const option_shape> shapes, std::string_view name) {
  for (const auto& shape : shapes)
    for (const auto& candidate : names_of(shape))
      if (candidate == name)
        return &shape;
  return nullptr;
}

/// "--fusion" for "--fusion-threshold-mb".
expected<match> by_prefix(std::span<const option_shape> shapes, const std::string& part) {
  std::vector<match> found;
  for (const auto& shape : shapes)
    for (const auto& candidate : names_of(shape))
      if (candidate.size() > 2 && candidate.starts_with(part) &&
          (found.empty() || found.back().shape != &shape))
        found.push_back({&shape, candidate, {}});
  if (found.size() > 1) {
    std::string text = "ambiguous option: " + part + " could match ";
    for (const auto& entry : found)
      text += (&entry == &found.front() ? "" : ", ") + entry.name;
    return wrong(text);
  }
  return found.empty() ? match{} : found.front();
}

std::string suggestion(std::span<const option_shape> shapes, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& shape : shapes)
    for (auto& candidate : names_of(shape))
      if (candidate.size() > 2) // any letter is near to any other
        names.push_back(std::move(candidate));
  return did_you_mean(name, std::vector<std::string_view>(names.begin(), names.end()));
}

expected<match> find(std::span<const option_shape> shapes, const std::string& word) {
  if (const auto* shape = exact(shapes, word))
    return match{shape, word, {}};
  const auto equals = word.find('=');
  const std::string name = word.substr(0, equals);
  std::optional<std::string> value;
  if (equals != std::string::npos) {
    value = word.substr(equals + 1);
    if (const auto* shape = exact(shapes, name))
      return match{shape, name, value};
  }
  auto found = by_prefix(shapes, name);
  if (!found)
    return found;
  if (found->shape) {
    found->value = value;
    return found;
  }
  // "-p22": one letter and its value.
  if (word[1] != '-')
    if (const auto* shape = exact(shapes, word.substr(0, 2)); shape && shape->values == 1)
      return match{shape, word.substr(0, 2), word.substr(2)};
  return wrong("unrecognized arguments: " + word + suggestion(shapes, name));
}

/// Why a value is no 32-bit whole number; empty if it is one.
std::string objection_to_number(const std::string& option, std::string_view text) {
  std::int32_t value = 0;
  const auto* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec == std::errc() && result.ptr == end)
    return {};
  const auto shown = "argument " + option + ": '" + std::string(text) + "' is ";
  if (result.ec == std::errc::result_out_of_range && result.ptr == end)
    return shown + "out of range";
  return shown + "not a whole number; write it as in " + option + " 4";
}

} // namespace

expected<arguments> parse_arguments(std::span<const option_shape> shapes,
                                    std::span<const std::string> words) {
  arguments result;
  std::size_t at = 0;
  while (at < words.size() && looks_like_option(words[at]) && words[at] != "--") {
    auto found = find(shapes, words[at++]);
    if (!found)
      return found.error();
    given_option given{found->shape->name, {}};
    if (found->value) {
      if (found->shape->values == 0)
        return wrong("argument " + found->name + ": ignored explicit argument '" + *found->value + "'");
      given.values.push_back(*found->value);
    }
    const auto wanted = static_cast<std::size_t>(found->shape->values);
    while (!found->value && given.values.size() < wanted && at < words.size() &&
           !looks_like_option(words[at]))
      given.values.push_back(words[at++]);
    if (given.values.size() != wanted)
      return wrong("argument " + found->name + ": expected " +
                   (wanted == 1 ? "one argument" : std::to_string(wanted) + " arguments"));
    if (found->shape->whole_numbers)
      for (const auto& value : given.values)
        if (const auto problem = objection_to_number(found->name, value); !problem.empty())
          return wrong(problem);
    result.options.push_back(std::move(given));
  }
  if (at < words.size() && words[at] == "--")
    ++at;
  result.command.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  return result;
}

} // namespace farandole
