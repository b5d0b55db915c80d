#include <algorithm>
#include <string>
#include <string_view>

#include "tools/farandole/reference/completion.hpp"

namespace farandole {

namespace {

// The options of 'farandole run' can stand only before the training command, whose words may look the same.
constexpr std::string_view conditions = R"(
# Whether the cursor is at the options of a command: $argv[1] is the command, the rest are its options with a value, as
# often as they have values.
function __farandole_at_options
    set -l words (commandline -opc)
    set -l program (basename -- $words[1])
    set -e words[1]
    if test "$program" != horovodrun
        test (count $words) -gt 0; and test "$words[1]" = $argv[1]; or return 1
        set -e words[1]
    else if test $argv[1] != run
        return 1
    end
    set -l values 0
    for word in $words
        if test $values -gt 0
            set values (math $values - 1)
        else if not string match -q -- '-*' $word
            return 1
        else
            for option in $argv[2..-1]
                test $option = $word; and set values (math $values + 1)
            end
        end
    end
    return 0
end

function __farandole_at_command
    test (count (commandline -opc)) -eq 1
end
)";

std::string quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text)
    result += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return result + "'";
}

/// "-l fusion-threshold-mb", "-s H" or, for a long name behind one dash, "-o np".
std::string switch_of(const std::string& name) {
  if (name.starts_with("--"))
    return "-l " + name.substr(2);
  return (name.size() == 2 ? "-s " : "-o ") + name.substr(1);
}

std::string value_of(const option_description& option) {
  if (option.values == 0)
    return "";
  switch (kind_of_value(option)) {
  case value_kind::file:
    return " -r -F";
  case value_kind::folder:
    return " -x -a '(__fish_complete_directories)'";
  case value_kind::choice: {
    std::string text;
    for (const auto& choice : option.choices)
      text += (text.empty() ? "" : " ") + choice;
    return " -x -a " + quoted(text);
  }
  case value_kind::unknown:
    break;
  }
  return " -x";
}

std::string lines_of(const command_description& command) {
  std::string condition = "__farandole_at_options " + command.name;
  for (const auto& option : command.options)
    for (int value = 0; value < option.values; ++value)
      for (const auto& name : option.names)
        condition += " " + name;
  // A dash is not allowed in the name of a variable.
  auto name = "__farandole_in_" + command.name;
  std::replace(name.begin(), name.end(), '-', '_');
  std::string text = "\nset -g " + name + " " + quoted(condition) + "\n";
  const auto programs = command.name == "run" ? "-c farandole -c horovodrun" : "-c farandole";
  for (const auto& option : command.options) {
    text += std::string("complete ") + programs + " -n $" + name;
    for (const auto& spelling : option.names)
      text += " " + switch_of(spelling);
    text += value_of(option) + " -d " + quoted(option.doc) + "\n";
  }
  for (const auto& word : command.words)
    text.append("complete -c farandole -n $").append(name).append(" -f -a ").append(word).append("\n");
  if (command.starts_program)
    text += std::string("complete ") + programs + " -n $" + name + " -a '(__fish_complete_command)'\n";
  return text;
}

} // namespace

std::string fish_completion(std::span<const command_description> commands) {
  std::string text =
      "# Completion of farandole and horovodrun in fish; made by 'farandole completion fish'.\n" +
      std::string(conditions) + "\n";
  for (const auto& command : commands)
    text += "complete -c farandole -n __farandole_at_command -f -a " + command.name + " -d " +
            quoted(command.summary) + "\n";
  for (const auto& command : commands)
    text += lines_of(command);
  return text;
}

} // namespace farandole
