#include <string>
#include <string_view>

#include "tools/farandole/reference/completion.hpp"

namespace farandole {

namespace {

/// In single quotes, with the characters of `special` behind a backslash.
std::string quoted(std::string_view text, std::string_view special) {
  std::string result;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos)
      result += '\\';
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return result;
}

std::string action_of(const option_description& option) {
  switch (kind_of_value(option)) {
  case value_kind::file:
    return "_files";
  case value_kind::folder:
    return "_files -/";
  case value_kind::choice: {
    std::string text;
    for (const auto& choice : option.choices)
      text += (text.empty() ? "(" : " ") + choice;
    return text + ")";
  }
  case value_kind::unknown:
    break;
  }
  return " "; // nothing to offer
}

/// The values of an option: ":FILE:_files".
std::string values_of(const option_description& option) {
  std::string text, rest = option.value;
  for (int number = 0; number < option.values; ++number) {
    const auto space = number + 1 == option.values ? std::string::npos : rest.find(' ');
    text += ":" + quoted(rest.substr(0, space), ":\\") + ":" + action_of(option);
    rest = space == std::string::npos ? "" : rest.substr(space + 1);
  }
  return text;
}

/// Options can be repeated; of the same option, the last one counts, or all do.
std::string specification(const std::string& name, const option_description& option) {
  const std::string equals = name.starts_with("--") && option.values == 1 ? "=" : "";
  return "    '*" + name + equals + "[" + quoted(option.doc, "[]\\:") + "]" + values_of(option) + "'\n";
}

std::string function_of(const command_description& command) {
  std::string text = "\n_farandole_" + command.name + "() {\n  local -a options=(\n";
  for (const auto& option : command.options)
    for (const auto& name : option.names)
      text += specification(name, option);
  text += "  )\n  _arguments -S -A '-*' : $options";
  if (command.starts_program)
    text += " '(-)1:command:_command_names -e' '(-)*::arguments:_normal'";
  else if (!command.words.empty()) {
    text += " '*:argument:(";
    for (const auto& word : command.words)
      text += (text.back() == '(' ? "" : " ") + word;
    text += ")'";
  }
  return text + "\n}\n";
}

} // namespace

std::string zsh_completion(std::span<const command_description> commands) {
  std::string text = "#compdef farandole horovodrun\n"
                     "# Completion of farandole and horovodrun in zsh; made by 'farandole completion zsh'.\n";
  for (const auto& command : commands)
    text += function_of(command);
  text += "\n_farandole() {\n"
          "  if [[ $service == horovodrun ]]; then\n"
          "    _farandole_run\n"
          "    return\n"
          "  fi\n"
          "  local -a commands=(\n";
  for (const auto& command : commands)
    text += "    '" + command.name + ":" + quoted(command.summary, "\\") + "'\n";
  return text + "  )\n"
                "  if ((CURRENT == 2)); then\n"
                "    _describe command commands\n"
                "  elif (($+functions[_farandole_$words[2]])); then\n"
                "    shift words\n"
                "    ((CURRENT -= 1))\n"
                "    _farandole_$words[1]\n"
                "  fi\n"
                "}\n"
                "\n_farandole \"$@\"\n";
}

} // namespace farandole
