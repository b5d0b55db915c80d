#include "tools/farandole/placers/agent_words.hpp"

namespace farandole {

namespace {

/// A word in double quotes for `sh`.
std::string quoted(const std::string& word) {
  std::string text = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\' || c == '$' || c == '`')
      text += '\\';
    text += c;
  }
  return text + "\"";
}

/// A script that runs the program that is found first with the script's arguments.
std::string script_for(const agent_program& program, std::string_view host) {
  auto arguments = std::string(" \"$@\"");
  if (!host.empty())
    arguments += " --host \"" + std::string(host) + "\"";
  const auto own = quoted(program.own);
  const auto script = "if test -x " + own + "; then exec " + own + arguments + "; ";
  const auto on_path = "exec farandole" + arguments + "; ";
  if (program.remote.empty())
    return script + "else " + on_path + "fi";
  return script + "elif command -v farandole >/dev/null; then " + on_path + "else exec " +
         quoted(program.remote) + arguments + "; fi";
}

std::vector<std::string> words_of(const agent_program& program, std::string_view host) {
  return {"sh", "-c", script_for(program, host), "farandole", "agent"};
}

} // namespace

std::string agent_program::candidates() const {
  return own + ", farandole on PATH" + (remote.empty() ? "" : ", " + remote + " (FARANDOLE_REMOTE_PROGRAM)");
}

std::vector<std::string> agent_words(const agent_program& program, std::uint16_t port, std::string_view host,
                                     secret_way way) {
  std::string launcher;
  for (const auto& ip : program.launcher)
    launcher += (launcher.empty() ? "" : ",") + ip + ":" + std::to_string(port);
  auto words = words_of(program, host);
  words.insert(words.end(), {"--launcher", launcher});
  if (program.dial_timeout.count() > 0)
    words.insert(words.end(), {"--dial-timeout", std::to_string(program.dial_timeout.count())});
  if (way == secret_way::standard_input)
    words.insert(words.end(), {"--secret-file", "-"});
  return words;
}

std::vector<std::string> forwarded_agent_words(const agent_program& program) {
  auto words = words_of(program, {});
  words.insert(words.end(), {"--forwarded", "--secret-file", "-"});
  return words;
}

} // namespace farandole
