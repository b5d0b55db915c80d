#include "tools/farandole/help_layout.hpp"

#include <CLI/CLI.hpp>

#include <sstream>
#include <string_view>

namespace farandole {

namespace {

constexpr std::size_t name_width = 44;
constexpr std::size_t line_width = 110;

constexpr std::string_view footer = R"(
The command begins at the first word that is not an option; its own options are passed on.

Examples:
  {program} -np 4 python train.py --epochs 3       four processes on this machine
  {program} -np 2 -H localhost:4 python train.py   two of the four slots of this machine
  {program} -np 4 --output-filename logs python train.py
                                                   also keeps each rank's output in logs/rank.N/
  {program} -np 2 python -m pytest tests           a distributed test
  {program} -np 4 --min-np 2 -H localhost:4 python train.py
                                                   elastic: continues with at least two workers
  {program} -np 4 --min-np 2 --max-np 8 --host-discovery-script ./hosts.sh python train.py
                                                   elastic: the script prints the available hosts
  {program} --check-build                          capabilities of this build, and all settings

If a worker fails, the job ends, and the launcher exits with the exit code of that worker.

In an elastic job (--min-np or --host-discovery-script) the other workers continue; the training script must use
hvd.elastic.run. A discovery script is any program that prints the hosts that may be used now:
  #!/bin/sh
  echo localhost:4
The launcher starts workers on the hosts that it prints, and removes them from hosts that it no longer prints. If its
first run fails, the job ends; if a later run fails, the launcher prints the error and keeps the last list of hosts.
'farandole drain RANK|HOST' removes single workers.
)";

constexpr std::string_view check_text = R"(Usage: {program} [--verbose] [--config-file FILE] [settings]

Shows the capabilities of this build, and every setting. It starts no job.

  Available Frameworks         frameworks whose package of Farandole can be imported by the Python beside this
                               command, or else by the first on PATH; importing them takes some seconds
  Available Controllers        ways in which ranks agree on what to do
  Available Tensor Operations  libraries that can move tensors
  Farandole Data Paths         ways in which Farandole moves tensors; FARANDOLE_CPU_PATH forces one
  Farandole Profiling          what NVIDIA's profilers can show of Farandole
  Operations and Their Data Paths
                               which path can move which operation, and why another cannot
  Settings                     each with its value, its source (default, environment, config file or
                               command line), and whether it has an effect in this build

The first four blocks are those of 'horovodrun --check-build', which prints the same report.

Options:
  --verbose           also tells why a framework cannot be imported
  --config-file FILE  reads settings from a YAML file, as a job does
  any setting         an option of 'farandole run', to see its effective value

Examples:
  {program}
  {program} --verbose
  {program} --config-file job.yaml --cycle-time-ms 2
)";

/// Long names behind one dash, which argparse supports.
struct alias {
  const char* option;
  const char* name;
};
constexpr alias aliases[] = {{"--num-proc", "-np"},
                             {"--check-build", "-cb"},
                             {"--hostfile", "-hostfile"},
                             {"--prefix-output-with-timestamp", "-prefix-timestamp"}};

std::string wrapped(const std::string& text, std::size_t width) {
  std::istringstream words(text);
  std::string result, word;
  std::size_t used = 0;
  while (words >> word) {
    if (used > 0 && used + 1 + word.size() > width) {
      result += '\n';
      used = 0;
    } else if (used > 0) {
      result += ' ';
      ++used;
    }
    result += word;
    used += word.size();
  }
  return result;
}

/// `text` with the program's name in place of "{program}".
std::string with_program(std::string_view pattern, const std::string& program) {
  constexpr std::string_view place = "{program}";
  std::string text(pattern);
  for (auto at = text.find(place); at != std::string::npos; at = text.find(place, at + program.size()))
    text.replace(at, place.size(), program);
  return text;
}

/// Formats an option with its aliases; of its constraints, shows only the type.
class layout : public CLI::Formatter {
  std::string make_usage(const CLI::App*, std::string program) const override {
    return "Usage: " + program + " -np N [options] command ...\n";
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_expected_min() == 0 ? "" : " " + option->get_type_name();
  }
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    const auto name = CLI::Formatter::make_option_name(option, positional);
    const char* also = positional ? nullptr : alias_of(option->get_name(false, false));
    return also ? std::string(also) + "," + name : name;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(option->get_description(), line_width - name_width);
  }
};

} // namespace

const char* alias_of(const std::string& option) {
  for (const auto& aliase : aliases)
    if (option == aliase.option)
      return aliase.name;
  return nullptr;
}

std::shared_ptr<CLI::FormatterBase> help_layout() {
  auto result = std::make_shared<layout>();
  result->column_width(name_width);
  return result;
}

std::string help_footer(const std::string& program) {
  return with_program(footer, program);
}

std::string check_help(const std::string& program) {
  return with_program(check_text, program);
}

} // namespace farandole
