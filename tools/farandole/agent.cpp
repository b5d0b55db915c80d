#include "tools/farandole/agent.hpp"

#include <CLI/CLI.hpp>

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>

#include "actors/launch/agent.hpp"
#include "actors/rendezvous/job_secret.hpp"
#include "actors/rendezvous/this_host.hpp"
#include "elastic/host_slots.hpp"
#include "messages/settings/settings.hpp"
#include "messages/values/printable.hpp"
#include "tools/farandole/cli/app_arguments.hpp"
#include "tools/farandole/worker_threads.hpp"

namespace farandole {

namespace {

constexpr int bad_usage = 2;

constexpr const char* teaching = R"(
The launcher starts an agent on every other host by itself (ssh). Start agents by hand, or as the processes of a
cluster, where the launcher cannot reach the hosts: the agents dial the launcher.

Example:
  (umask 077; openssl rand -hex 16 > secret)                      # once; copy the file to all hosts
  FARANDOLE_SECRET_FILE=secret farandole run --agents 2 python train.py      # on one host; it prints its addresses
  farandole agent --launcher 10.0.0.1:4711 --secret-file secret   # on each host that is to run workers

SIGTERM lets the host leave an elastic job at its next commit. A second SIGTERM, or SIGINT, ends the agent and its
workers at once.)";

struct wishes {
  std::string launcher;
  std::string secret_file;
  std::string host;
  std::int32_t slots = 0;
};

error wrong(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

/// Reads the first line of the standard input, and nothing beyond it.
expected<std::string> secret_from_input(std::chrono::seconds longest) {
  constexpr std::size_t most_bytes = 4096;
  const auto end = std::chrono::steady_clock::now() + longest;
  std::string line;
  for (;;) {
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd watched{STDIN_FILENO, POLLIN, 0};
    if (rest.count() <= 0 || ::poll(&watched, 1, static_cast<int>(rest.count())) == 0)
      return error{error_kind::timed_out, "no secret came on the standard input (--secret-file -) within " +
                                              std::to_string(longest.count()) + " s"};
    char c = 0;
    const auto count = ::read(STDIN_FILENO, &c, 1);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0 || line.size() == most_bytes)
      return wrong("the standard input holds no secret (--secret-file -): it must be one line");
    if (c == '\n')
      return line;
    line += c;
  }
}

/// Parses "ADDRESS:PORT,…". Names are resolved, so it may block.
expected<std::vector<agent_options::address>> parse_launcher(std::string_view text) {
  std::vector<agent_options::address> found;
  std::string problem;
  for (;;) {
    const auto comma = text.find(',');
    const auto entry = text.substr(0, comma);
    const auto colon = entry.rfind(':');
    std::uint16_t port = 0;
    const auto* end = entry.data() + entry.size();
    if (colon == std::string_view::npos || colon == 0 ||
        std::from_chars(entry.data() + colon + 1, end, port).ptr != end || port == 0)
      return wrong("--launcher: '" + printable_name(entry) + "' is not of the form ADDRESS:PORT");
    if (auto ip = resolve(std::string(entry.substr(0, colon))))
      found.push_back({*ip, port});
    else
      problem = ip.error().text;
    if (comma == std::string_view::npos)
      break;
    text.remove_prefix(comma + 1);
  }
  if (found.empty())
    return wrong("--launcher: " + problem);
  return found;
}

expected<agent_options> options_of(const wishes& wanted) {
  agent_options options;
  auto values = settings::load({process_environment(), {}, {}});
  if (!values)
    return values.error();
  options.values = std::move(*values);
  const bool by_input = wanted.secret_file == "-";
  auto secret = by_input ? secret_from_input(std::chrono::duration_cast<std::chrono::seconds>(
                               options.values.duration(setting::start_timeout)))
                         : read_secret_file(wanted.secret_file, "the secret file " + wanted.secret_file);
  if (!secret)
    return secret.error();
  if (auto problem = by_input ? check_secret(*secret, "the secret on the standard input") : error{})
    return problem;
  options.secret = std::move(*secret);
  options.watched_input = by_input ? STDIN_FILENO : -1;
  auto launcher = parse_launcher(wanted.launcher);
  if (!launcher)
    return launcher.error();
  options.launcher = std::move(*launcher);
  options.host = wanted.host;
  options.slots = wanted.slots;
  options.cores = whole_usable_cores();
  options.version = FARANDOLE_VERSION;
  return options;
}

std::unique_ptr<CLI::App> make_app(wishes& wanted) {
  auto app = std::make_unique<CLI::App>(
      "Serves a launcher on this host: starts its workers and forwards their output.", "farandole agent");
  app->footer(teaching);
  app->add_option(
         "--launcher", wanted.launcher,
         "addresses of the launcher; all are tried at once, and the first that proves the secret is used")
      ->type_name("ADDRESS:PORT,...")
      ->required();
  app->add_option(
         "--secret-file", wanted.secret_file,
         "file that holds the job's secret; -: the first line of the standard input, whose end is then the "
         "end of the agent")
      ->type_name("FILE")
      ->required();
  app->add_option("--host", wanted.host, "name of this host in the job (default: its own name)")
      ->type_name("NAME");
  app->add_option("--slots", wanted.slots, "number of workers for this host (default: its usable cores)")
      ->check(CLI::Range(1, most_slots));
  return app;
}

} // namespace

std::vector<option_description> agent_options_of_command() {
  wishes wanted;
  return describe_options(*make_app(wanted));
}

int run_agent_command(const std::string& program, const std::vector<std::string>& words) {
  wishes wanted;
  const auto app = make_app(wanted);
  const auto parsed = parse_with(*app, words);
  if (parsed && !parsed->help.empty()) {
    std::cout << parsed->help << std::flush;
    return 0;
  }
  error problem = parsed ? error{} : wrong(parsed.error().text + "; see farandole agent --help");
  if (parsed && !parsed->command.empty())
    problem = wrong("it takes no command (got: " + parsed->command.front() + "); see farandole agent --help");
  if (!problem) {
    auto options = options_of(wanted);
    if (options) {
      options->program = program;
      return run_agent(*options);
    }
    problem = options.error();
  }
  std::cerr << "farandole agent: " << printable(problem.text) << std::endl;
  return bad_usage;
}

} // namespace farandole
