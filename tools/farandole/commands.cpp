#include "tools/farandole/commands.hpp"

#include <algorithm>
#include <iostream>

#include "messages/values/nearest_name.hpp"
#include "tools/farandole/agent.hpp"
#include "tools/farandole/chaos/options.hpp"
#include "tools/farandole/command_line.hpp"
#include "tools/farandole/drain.hpp"
#include "tools/farandole/dump.hpp"
#include "tools/farandole/explain.hpp"
#include "tools/farandole/help_layout.hpp"
#include "tools/farandole/reference/completion.hpp"
#include "tools/farandole/reference/manual_page.hpp"
#include "tools/farandole/rendezvous.hpp"
#include "tools/farandole/report.hpp"
#include "tools/farandole/rsh.hpp"
#include "tools/farandole/trace.hpp"

namespace farandole {

namespace {

constexpr int bad_usage = 2;

/// The option that every command has, for commands without a CLI11 app.
std::vector<option_description> with_help(std::vector<option_description> options = {}) {
  options.insert(options.begin(), {{"-h", "--help"}, "Prints this.", "", 0, {}, "Options"});
  return options;
}

option_description flag(const char* name, const char* doc) {
  return {{name}, doc, "", 0, {}, "Options"};
}

struct shell {
  std::string_view name;
  std::string (*script)(std::span<const command_description>);
  std::string_view place; ///< where the shell finds the script
};

constexpr shell shells[] = {
    {"bash", bash_completion, "~/.local/share/bash-completion/completions/farandole"},
    {"zsh", zsh_completion, "a folder of $fpath, as _farandole"},
    {"fish", fish_completion, "~/.config/fish/completions/farandole.fish"},
};

std::string completion_usage() {
  std::string text =
      "usage: farandole completion bash|zsh|fish\n\nPrints a script that completes the command lines of "
      "farandole and horovodrun. Installing Farandole also installs the scripts, into share/ beside the "
      "program's bin/. To use one without installing it, write it to the place where the shell looks:\n\n";
  for (const auto& row : shells)
    text +=
        "  " + std::string(row.name) + std::string(8 - row.name.size(), ' ') + std::string(row.place) + "\n";
  return text + "\nExample: source <(farandole completion bash)\n";
}

bool asks_for_help(const std::vector<std::string>& words) {
  return words == std::vector<std::string>{"--help"} || words == std::vector<std::string>{"-h"};
}

int show_usage(bool asked, const std::string& text) {
  (asked ? std::cout : std::cerr) << text << std::flush;
  return asked ? 0 : bad_usage;
}

} // namespace

std::vector<command_description> command_table() {
  std::vector<command_description> table = {
      {"run", "starts a job: farandole run -np 4 python train.py", run_options(), {}, "", true},
      {"agent", "serves a launcher on another host: starts its workers there", agent_options_of_command()},
      {"rendezvous", "serves a job whose processes another launcher starts, on this host or on others",
       rendezvous_options()},
      {"drain", "removes workers from an elastic job without losing a step: farandole drain 3",
       drain_options()},
      {"explain", "states what the ranks of a running or failed job are waiting for", explain_options()},
      {"dump", "writes the event records of a running job to files", dump_options()},
      {"trace",
       "records all events of a running job, and shows what all ranks did as one picture",
       trace_options(),
       {"start", "stop", "merge"}},
      {"report", "states where the time of a training step goes, and which rank costs how much of it",
       report_options()},
      {"rsh",
       "runs a command on a host of a running job: farandole rsh alpha nvidia-smi",
       rsh_options(),
       {},
       "",
       true},
      {"chaos",
       "trains while it injects faults from a seed, and reports the recovery from each",
       chaos::options(),
       {},
       "",
       true},
      {"build-xla", "compiles the operations for XLA against the installed TensorFlow",
       with_help({flag("--force", "Compiles even if it has been done before.")})},
      {"check",
       "shows the capabilities of this build, and every setting with its value and source",
       run_options(),
       {},
       "run"},
      {"settings", "prints the table of settings (--markdown: as the page docs/settings.md)",
       with_help({flag("--markdown", "Prints the page of documentation."),
                  {{"--config-file"},
                   "Prints the keys and values of a config file, a line KEY=VALUE each.",
                   "FILE",
                   1,
                   {},
                   "Options"}})},
      {"operations", "prints the data types and data paths of every operation, as Markdown", with_help()},
      {"completion", "prints the completion of command lines for a shell: bash, zsh or fish", with_help()},
      {"manual", "prints the manual page, in the language of man", with_help()},
      {"help", "prints this, or the help of a command: farandole help run", {}},
      {"version", "prints the versions of Farandole and of the Horovod interface", {}},
  };
  for (auto& command : table) {
    if (command.name == "completion")
      for (const auto& row : shells)
        command.words.emplace_back(row.name);
    if (command.name == "help")
      for (const auto& other : table)
        command.words.push_back(other.name);
  }
  return table;
}

std::string overview() {
  std::string text =
      "Farandole runs collective operations across the workers of a distributed training job.\n\n"
      "usage: farandole <command> ...\n\n";
  constexpr std::size_t width = 12;
  for (const auto& command : command_table())
    text += "  " + command.name + std::string(width - command.name.size(), ' ') + command.summary + "\n";
  return text + "\nhorovodrun is the same as farandole run.\n";
}

std::string nearest_command(const std::string& name) {
  const auto table = command_table();
  std::vector<std::string_view> names;
  for (const auto& command : table)
    names.push_back(command.name);
  return did_you_mean(name, names);
}

int show_completion(const std::vector<std::string>& words) {
  if (words.size() == 1)
    for (const auto& row : shells)
      if (row.name == words.front()) {
        std::cout << row.script(command_table()) << std::flush;
        return 0;
      }
  if (!asks_for_help(words) && !words.empty())
    std::cerr << "farandole completion: error: there is completion for bash, zsh and fish, not for '"
              << words.back() << "'\n\n";
  return show_usage(asks_for_help(words), completion_usage());
}

int show_manual(const std::vector<std::string>& words, std::string_view version) {
  if (!words.empty())
    return show_usage(asks_for_help(words),
                      "usage: farandole manual\n\nPrints the manual page farandole(1).\n"
                      "Example: farandole manual | man -l -\n");
  std::cout << manual_page(command_table(), version, help_footer("farandole run")) << std::flush;
  return 0;
}

} // namespace farandole
