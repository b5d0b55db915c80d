#include "tools/farandole/cli/app_arguments.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>

#include "messages/values/nearest_name.hpp"
#include "tools/farandole/cli/arguments.hpp"
#include "tools/farandole/cli/option_description.hpp"

namespace farandole {

namespace {

std::vector<option_shape> shapes_of(const CLI::App& app) {
  std::vector<option_shape> shapes;
  for (const auto* option : app.get_options()) {
    auto names = option_names(*option);
    if (names.empty())
      continue; // a positional
    option_shape shape;
    shape.name = names.front();
    shape.aliases.assign(names.begin() + 1, names.end());
    shape.values = option->get_expected_min() == 0 ? 0 : 1;
    shape.whole_numbers = shape.values > 0 && option->get_type_name().starts_with("INT");
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

} // namespace

expected<app_result> parse_with(CLI::App& app, std::span<const std::string> words) {
  auto parsed = parse_arguments(shapes_of(app), words);
  if (!parsed)
    return parsed.error();
  app_result result{std::move(parsed->command), {}};
  std::vector<std::string> options;
  for (const auto& option : parsed->options)
    options.push_back(option.values.empty() ? option.name : option.name + "=" + option.values.front());
  std::reverse(options.begin(), options.end()); // CLI11 takes them in reverse order
  try {
    app.parse(std::move(options));
  } catch (const CLI::CallForHelp&) {
    result.help = app.help();
  } catch (const CLI::ParseError& problem) {
    return error{error_kind::invalid_argument, refusal_of(app, problem, words)};
  }
  return result;
}

std::string refusal_of(const CLI::App& app, const CLI::ParseError& problem,
                       std::span<const std::string> words) {
  std::string text = problem.what();
  // "Could not convert: --port = abc"
  const std::string_view conversion = "Could not convert: ";
  if (const auto equals = text.find(" = "); text.starts_with(conversion) && equals != std::string::npos)
    return "argument " + text.substr(conversion.size(), equals - conversion.size()) + ": '" +
           text.substr(equals + 3) + "' is not a number in its range";
  if (problem.get_exit_code() != static_cast<int>(CLI::ExitCodes::ExtrasError))
    return text;
  std::vector<std::string> values;
  for (const auto* option : app.get_options())
    for (auto& name : option_names(*option))
      values.push_back(std::move(name));
  for (const auto& word : words) {
    const auto name = word.substr(0, word.find('='));
    if (name.starts_with("-") && std::find(values.begin(), values.end(), name) == values.end())
      return "unrecognized arguments: " + word +
             did_you_mean(name, std::vector<std::string_view>(values.begin(), values.end()));
  }
  return text;
}

} // namespace farandole
