#include "tools/farandole/placers/ssh.hpp"

#include <sstream>

namespace farandole {

namespace {

/// A word in double quotes for `sh`, inside of single quotes for the login shell.
std::string quoted(const std::string& word) {
  std::string text = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\' || c == '$' || c == '`')
      text += '\\';
    if (c == '\'')
      text += "'\\''";
    else
      text += c;
  }
  return text + "\"";
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;)
    words.push_back(word);
  return words;
}

/// A shell that runs `farandole "$@"` with the program that is found first.
std::string script_for(const ssh_options& options) {
  const auto& given = options.remote_program;
  if (!given.empty())
    return "exec " + quoted(given) + " \"$@\"";
  return "if test -x " + quoted(options.own_program) + "; then exec " + quoted(options.own_program) +
         " \"$@\"; else exec farandole \"$@\"; fi";
}

} // namespace

std::string agent_command_line(const ssh_options& options, const std::string& host, std::uint16_t port) {
  std::string launcher;
  for (const auto& ip : options.launcher)
    launcher += (launcher.empty() ? "" : ",") + ip + ":" + std::to_string(port);
  return "exec sh -c '" + script_for(options) + "' farandole agent --launcher " + launcher +
         " --secret-file - --host " + host;
}

placer ssh_placer(const ssh_options& options) {
  placer made;
  made.name = "ssh";
  made.remedy = options.remote_shell.empty()
                    ? "; install an ssh client, or name another remote shell by FARANDOLE_RSH"
                    : "; check the remote shell (FARANDOLE_RSH): " + options.remote_shell;
  made.program = options.remote_program.empty() ? options.own_program : options.remote_program;
  made.command = [options](const std::string& host, std::uint16_t launcher_port) {
    auto words = words_of(options.remote_shell);
    if (words.empty()) {
      words = {"ssh",           "-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no", "-o",
               "BatchMode=yes", host};
      if (options.port) {
        words.emplace_back("-p");
        words.push_back(std::to_string(*options.port));
      }
      if (!options.identity_file.empty()) {
        words.emplace_back("-i");
        words.push_back(options.identity_file);
      }
    } else {
      words.push_back(host);
    }
    words.push_back(agent_command_line(options, host, launcher_port));
    return words;
  };
  return made;
}

} // namespace farandole
