#include <string>
#include <string_view>

#include "tools/farandole/reference/completion.hpp"

namespace farandole {

namespace {

// `count` and `kind` are the answers of the two generated functions. bash splits "--option=value" into three words.
constexpr std::string_view walk = R"(
# Offers the words of $1.
_farandole_offer() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$word")
}

_farandole_value() {
  _farandole_kind "$1"
  case $kind in
    file) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    folder) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    ?*) _farandole_offer "$kind" ;;
  esac
}

# Completes a command that farandole starts, which begins at word $1.
_farandole_program() {
  if declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  elif (($1 == COMP_CWORD)); then
    mapfile -t COMPREPLY < <(compgen -c -- "$word")
  else
    compopt -o default 2>/dev/null
  fi
}

# Completes the words of command $1, which begin at word $2.
_farandole_words() {
  local command=$1 at=$2 count=0 current
  while ((at < COMP_CWORD)) && [[ ${COMP_WORDS[at]} == -?* ]]; do
    current=${COMP_WORDS[at]}
    ((at += 1))
    if [[ $current == -- ]]; then break; fi
    _farandole_count "$command $current"
    if [[ ${COMP_WORDS[at]} == = ]]; then
      if ((at == COMP_CWORD)); then word=; else ((at += 1)); fi
    fi
    if ((count > 0 && at + count > COMP_CWORD)); then
      _farandole_value "$command $current"
      return
    fi
    ((at += count))
  done
  if [[ $word == -* ]] && ((at == COMP_CWORD)); then
    _farandole_options "$command"
  else
    _farandole_arguments "$command" "$at"
  fi
}

_farandole() {
  local word=${COMP_WORDS[COMP_CWORD]} kind
  COMPREPLY=()
  if [[ ${1##*/} == horovodrun ]]; then
    _farandole_words run 1
  elif ((COMP_CWORD == 1)); then
    _farandole_offer "$_farandole_commands"
  else
    _farandole_words "${COMP_WORDS[1]}" 2
  fi
}

complete -F _farandole farandole horovodrun
)";

std::string joined(std::span<const std::string> words) {
  std::string text;
  for (const auto& word : words)
    text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string quoted_names(const command_description& command, const option_description& option) {
  std::string text;
  for (const auto& name : option.names)
    text += (text.empty() ? "'" : " | '") + command.name + " " + name + "'";
  return text;
}

std::string counts(std::span<const command_description> commands) {
  std::string text = "\n# Sets count to the number of values of an option, given as 'COMMAND OPTION'.\n"
                     "_farandole_count() {\n  count=0\n  case $1 in\n";
  for (const auto& command : commands)
    for (const auto& option : command.options)
      if (option.values > 0)
        text += "    " + quoted_names(command, option) + ") count=" + std::to_string(option.values) + " ;;\n";
  return text + "  esac\n}\n";
}

std::string kind_text(const option_description& option) {
  switch (kind_of_value(option)) {
  case value_kind::file:
    return "file";
  case value_kind::folder:
    return "folder";
  case value_kind::choice:
    return "'" + joined(option.choices) + "'";
  case value_kind::unknown:
    break;
  }
  return {};
}

std::string kinds(std::span<const command_description> commands) {
  std::string text = "\n# Sets kind to file, folder, the possible values, or nothing.\n"
                     "_farandole_kind() {\n  kind=\n  case $1 in\n";
  for (const auto& command : commands)
    for (const auto& option : command.options)
      if (const auto kind = kind_text(option); option.values > 0 && !kind.empty())
        text += "    " + quoted_names(command, option) + ") kind=" + kind + " ;;\n";
  return text + "  esac\n}\n";
}

std::string options(std::span<const command_description> commands) {
  std::string text = "\n_farandole_options() {\n  case $1 in\n";
  for (const auto& command : commands) {
    std::string names;
    for (const auto& option : command.options)
      names += (names.empty() ? "" : " ") + joined(option.names);
    if (!names.empty())
      text += "    " + command.name + ") _farandole_offer '" + names + "' ;;\n";
  }
  return text + "  esac\n}\n";
}

std::string arguments(std::span<const command_description> commands) {
  std::string text = "\n# Completes words of command $1 that are not options; the first is word $2.\n"
                     "_farandole_arguments() {\n  case $1 in\n";
  for (const auto& command : commands)
    if (command.starts_program)
      text += "    " + command.name + ") _farandole_program \"$2\" ;;\n";
    else if (!command.words.empty())
      text += "    " + command.name + ") _farandole_offer '" + joined(command.words) + "' ;;\n";
  return text + "  esac\n}\n";
}

} // namespace

std::string bash_completion(std::span<const command_description> commands) {
  std::string names;
  for (const auto& command : commands)
    names += (names.empty() ? "" : " ") + command.name;
  return "# Completion of farandole and horovodrun in bash; made by 'farandole completion bash'.\n"
         "\n_farandole_commands='" +
         names + "'\n" + counts(commands) + kinds(commands) + options(commands) + arguments(commands) +
         std::string(walk);
}

} // namespace farandole
