// The command `farandole` and, under its other name, `horovodrun`.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "actors/launch/process.hpp"
#include "messages/settings/known_variables.hpp"
#include "messages/settings/settings_page.hpp"
#include "messages/values/printable.hpp"
#include "tools/farandole/agent.hpp"
#include "tools/farandole/build_xla.hpp"
#include "tools/farandole/chaos/chaos.hpp"
#include "tools/farandole/check.hpp"
#include "tools/farandole/command_line.hpp"
#include "tools/farandole/command_output.hpp"
#include "tools/farandole/commands.hpp"
#include "tools/farandole/config_file.hpp"
#include "tools/farandole/csm_query.hpp"
#include "tools/farandole/drain.hpp"
#include "tools/farandole/dump.hpp"
#include "tools/farandole/explain.hpp"
#include "tools/farandole/gpu_report.hpp"
#include "tools/farandole/operations_page.hpp"
#include "tools/farandole/rendezvous.hpp"
#include "tools/farandole/report.hpp"
#include "tools/farandole/rsh.hpp"
#include "tools/farandole/run.hpp"
#include "tools/farandole/trace.hpp"

namespace farandole {

namespace {

constexpr int bad_usage = 2;

bool is_on_path(const std::string& name) {
  const char* variable = std::getenv("PATH");
  std::string_view path = variable ? variable : "";
  while (!path.empty()) {
    const auto colon = path.find(':');
    if (::access((std::string(path.substr(0, colon)) + "/" + name).c_str(), X_OK) == 0)
      return true;
    path.remove_prefix(colon == std::string_view::npos ? path.size() : colon + 1);
  }
  return false;
}

expected<std::string> content_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream content;
  if (!file || !(content << file.rdbuf()))
    return error{error_kind::invalid_argument, "the file cannot be read"};
  return content.str();
}

/// The output of a query of a scheduler.
expected<std::string> said_by_query(const std::vector<std::string>& command) {
  return output_of(command, with_csm_folder(own_environment()), std::chrono::seconds{30});
}

int show_check(const std::string& called_as, const run_request& request) {
  auto facts = find_facts(called_as);
  facts.version = FARANDOLE_VERSION;
  std::cout << build_report(facts) << operations_report(facts) << find_and_report_gpus(find_python(called_as))
            << settings_report(request.values);
  if (request.verbose)
    std::cout << reasons_report(facts);
  std::cout.flush();
  return 0;
}

/// The path of the program `farandole`, which horovodrun runs.
std::string path_of_this_program(const std::string& called_as) {
  std::error_code problem;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", problem);
  return problem ? called_as : path.string();
}

int run(const std::string& called_as, const std::string& program, std::vector<std::string> words) {
  const auto request =
      parse_run(program, words,
                {process_environment(), is_on_path("jsrun"), process_variables(), content_of, said_by_query});
  if (!request) {
    std::cerr << printable(request.error().text) << std::endl;
    return bad_usage;
  }
  for (const auto& line : request->warnings)
    std::cerr << program << ": " << printable(line) << std::endl;
  switch (request->value) {
  case run_request::kind::help:
    std::cout << request->text << std::flush;
    return 0;
  case run_request::kind::version:
    std::cout << interface_version << std::endl;
    return 0;
  case run_request::kind::check:
    return show_check(called_as, *request);
  case run_request::kind::run:
    return run_job(*request, path_of_this_program(called_as));
  }
  return bad_usage;
}

int show_settings(const std::vector<std::string>& words) {
  if (words == std::vector<std::string>{"--markdown"}) {
    std::cout << settings_page() << std::flush;
    return 0;
  }
  if (words.size() == 2 && words.front() == "--config-file")
    return show_config_file(words.back());
  if (words.empty()) {
    const auto values = settings::load({process_environment(), {}, {}});
    if (!values) {
      std::cerr << "farandole settings: error: " << values.error().text << std::endl;
      return bad_usage;
    }
    for (const auto& line : values->warnings())
      std::cerr << "farandole settings: WARNING: " << line << std::endl;
    std::cout << settings_report(*values).substr(1) << std::flush;
    return 0;
  }
  const bool asked = words == std::vector<std::string>{"--help"} || words == std::vector<std::string>{"-h"};
  (asked ? std::cout : std::cerr)
      << "usage: farandole settings [--markdown | --config-file FILE]\n\nPrints every setting with its value "
         "here; with --markdown, the page of documentation; with --config-file, the keys and values of that "
         "file, a line KEY=VALUE each.\nExample: farandole settings --markdown > docs/settings.md\n";
  return asked ? 0 : bad_usage;
}

int show_operations(const std::vector<std::string>& words) {
  if (words.empty()) {
    std::cout << operations_tables() << std::flush;
    return 0;
  }
  const bool asked = words == std::vector<std::string>{"--help"} || words == std::vector<std::string>{"-h"};
  (asked ? std::cout : std::cerr)
      << "usage: farandole operations\n\nPrints, as Markdown, where every operation "
         "runs and which element types and reductions it takes.\nExample: farandole operations > "
         "operations.md\n";
  return asked ? 0 : bad_usage;
}

int choose(const std::string& called_as, std::vector<std::string> words) {
  const auto name = called_as.substr(called_as.rfind('/') + 1);
  if (name == "horovodrun")
    return run(called_as, "horovodrun", std::move(words));
  std::string command = words.empty() ? "help" : words.front();
  if (!words.empty())
    words.erase(words.begin());
  if (command == "help" && !words.empty()) {
    command = words.front();
    words = {"--help"};
  }
  if (command == "run")
    return run(called_as, "farandole run", std::move(words));
  if (command == "check" || command == "--check-build" || command == "-cb") {
    words.insert(words.begin(), "--check-build");
    return run(called_as, "farandole check", std::move(words));
  }
  if (command == "agent")
    return run_agent_command(path_of_this_program(called_as), words);
  if (command == "rendezvous")
    return run_rendezvous(words);
  if (command == "chaos")
    return run_chaos(called_as, words);
  if (command == "drain")
    return run_drain(words);
  if (command == "dump")
    return run_dump(words);
  if (command == "explain")
    return run_explain(words);
  if (command == "trace")
    return run_trace(words);
  if (command == "report")
    return run_report(words);
  if (command == "rsh")
    return run_rsh(words);
  if (command == "build-xla")
    return run_build_xla(called_as, words);
  if (command == "settings")
    return show_settings(words);
  if (command == "operations")
    return show_operations(words);
  if (command == "completion")
    return show_completion(words);
  if (command == "manual")
    return show_manual(words, FARANDOLE_VERSION);
  if (command == "--version" || command == "-v" || command == "version") {
    std::cout << "farandole " FARANDOLE_VERSION " (Horovod interface " << interface_version << ")"
              << std::endl;
    return 0;
  }
  if (command == "help" || command == "--help" || command == "-h") {
    std::cout << overview() << std::flush;
    return 0;
  }
  std::cerr << "farandole: error: there is no command '" << printable(command) << "'"
            << nearest_command(command) << "; farandole --help lists all" << std::endl;
  return bad_usage;
}

/// Opens standard streams that were closed at the start, so that no other file gets their descriptors. Output to them
/// fails, as it would to a closed stream, so that the loss of the workers' output is reported.
void fill_standard_streams() {
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  } while (fd >= 0 && fd <= 2);
  if (fd > 2)
    ::close(fd);
}

} // namespace

} // namespace farandole

int main(int count, char** words) {
  farandole::fill_standard_streams();
  try {
    return farandole::choose(count > 0 ? words[0] : "farandole", {words + std::min(count, 1), words + count});
  } catch (
      const std::exception& problem) { // out of memory or a broken locale: the process cannot recover from it
    std::cerr << "farandole: " << problem.what() << std::endl;
    return 1;
  }
}
