#include "tools/farandole/agent.hpp"

#include <CLI/CLI.hpp>

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "actors/launch/agent.hpp"
#include "actors/launch/forwarded_ports.hpp"
#include "actors/launch/job_watch.hpp"
#include "actors/rendezvous/job_secret.hpp"
#include "actors/rendezvous/this_host.hpp"
#include "elastic/host_slots.hpp"
#include "messages/settings/settings.hpp"
#include "messages/values/printable.hpp"
#include "tools/farandole/cli/app_arguments.hpp"
#include "tools/farandole/cli/endpoint.hpp"
#include "tools/farandole/worker_threads.hpp"

namespace farandole {

namespace {

constexpr int bad_usage = 2;

constexpr const char* teaching = R"(
The launcher starts an agent on every other host by itself (ssh). Start agents by hand, or as the processes of a
cluster, where the launcher cannot reach the hosts: the agents dial the launcher.

Example:
  (umask 077; openssl rand -hex 16 > secret)                      # once; copy the file to all hosts
  FARANDOLE_SECRET_FILE=secret farandole run --agents 2 -np 8 python train.py     # on one host; it prints its addresses
  farandole agent --launcher 10.0.0.1:4711 --secret-file secret   # on each host that is to run workers

SIGTERM lets the host leave an elastic job at its next commit. A second SIGTERM, or SIGINT, ends the agent and its
workers at once.)";

struct wishes {
  std::string launcher;
  std::string secret_file;
  std::string host;
  std::int32_t slots = 0;
  std::int32_t dial_timeout_s = 0;
  bool forwarded = false;
  bool ends_with_worker = false;
};

error wrong(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

/// Reads the next line of the standard input, and nothing beyond it. Empty if the input ends before anything came.
/// `content` is that of the line, for messages.
expected<std::string> line_of_input(std::chrono::seconds longest, const std::string& content) {
  constexpr std::size_t most_bytes = 4096;
  const auto end = std::chrono::steady_clock::now() + longest;
  std::string line;
  for (;;) {
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd watched{STDIN_FILENO, POLLIN, 0};
    if (rest.count() <= 0 || ::poll(&watched, 1, static_cast<int>(rest.count())) == 0)
      return error{error_kind::timed_out, "no " + content + " came on the standard input within " +
                                              std::to_string(longest.count()) + " s"};
    char c = 0;
    const auto count = ::read(STDIN_FILENO, &c, 1);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0 && line.empty())
      return line;
    if (count <= 0 || line.size() == most_bytes)
      return wrong("the standard input holds no " + content + ": it must be one line");
    if (c == '\n')
      return line;
    line += c;
  }
}

std::chrono::seconds start_timeout_of(const settings& values) {
  return std::chrono::duration_cast<std::chrono::seconds>(values.duration(setting::start_timeout));
}

/// Takes the secret from the standard input. Where the remote shell that started this agent passes no input (as
/// `kubectl exec` without -i), takes it from the file of the settings; the end of the input then means nothing.
error take_secret_from_launcher(agent_options& options) {
  auto secret = line_of_input(start_timeout_of(options.values), "secret (--secret-file -)");
  if (!secret)
    return secret.error();
  options.watched_input = STDIN_FILENO;
  const auto& path = options.values.text(setting::secret_file);
  if (secret->empty() && path.empty())
    return wrong("the standard input holds no secret (--secret-file -): the remote shell that started this "
                 "agent passes no input. Put the same secret into a file on the launcher's host and on this "
                 "one (umask 077; openssl rand -hex 16 > secret), and set FARANDOLE_SECRET_FILE on both");
  if (secret->empty()) {
    std::cerr << "farandole agent: the remote shell passes no input; this agent uses the secret of "
                 "FARANDOLE_SECRET_FILE="
              << printable_name(path) << ", which the launcher's FARANDOLE_SECRET_FILE must hold too"
              << std::endl;
    options.watched_input = -1;
    secret = read_secret_file(path, "FARANDOLE_SECRET_FILE=" + path);
    if (!secret)
      return secret.error();
  } else if (auto problem = check_secret(*secret, "the secret on the standard input")) {
    return problem;
  }
  options.secret = std::move(*secret);
  return {};
}

/// Takes the ports of this host that ssh forwards to the launcher and to the rendezvous from the standard input.
error take_forwarded_ports(agent_options& options) {
  const std::string content = "forwarded ports (--forwarded)";
  const auto line = line_of_input(start_timeout_of(options.values), content);
  if (!line)
    return line.error();
  const auto ports = ports_in_line(*line, 2);
  if (ports.empty())
    return wrong("the standard input holds no " + content + ": it must be one line");
  options.launcher = {{"127.0.0.1", ports[0]}};
  options.forwarded_rendezvous = ports[1];
  return {};
}

/// Parses "ADDRESS:PORT,…".
expected<std::vector<endpoint>> parse_launcher(std::string_view text) {
  std::vector<endpoint> found;
  for (;;) {
    const auto comma = text.find(',');
    const auto entry = text.substr(0, comma);
    const auto parsed = endpoint::parse(entry);
    if (!parsed)
      return wrong("--launcher: '" + printable_name(entry) + "' is not of the form ADDRESS:PORT");
    found.push_back(*parsed);
    if (comma == std::string_view::npos)
      return found;
    text.remove_prefix(comma + 1);
  }
}

/// Resolves the names of the launcher. In a cluster the name of a pod may appear after this agent has started, so this
/// tries again until the start timeout. Blocks; a signal that ends an agent ends the wait.
expected<std::vector<agent_options::address>> resolve_launcher(const std::vector<endpoint>& addresses,
                                                               const settings& values) {
  const auto deadline = std::chrono::steady_clock::now() + values.duration(setting::start_timeout);
  const auto signals = ending_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  for (bool first = true;; first = false) {
    std::vector<agent_options::address> found;
    std::string problem;
    for (const auto& [host, port] : addresses) {
      if (auto ip = resolve(host))
        found.push_back({*ip, port});
      else
        problem = "--launcher: " + ip.error().text;
    }
    if (!found.empty())
      return found;
    constexpr timespec pause{1, 0};
    if (std::chrono::steady_clock::now() + std::chrono::seconds{pause.tv_sec} > deadline)
      return wrong(problem + "; it was tried again until " + values.cited(setting::start_timeout) +
                   " had passed");
    if (first)
      std::cerr << "farandole agent: " << printable(problem) << "; trying again until "
                << values.cited(setting::start_timeout) << " has passed" << std::endl;
    if (::sigtimedwait(&signals, nullptr, &pause) > 0)
      return wrong(problem + "; a signal ended the wait");
  }
}

expected<agent_options> options_of(const wishes& wanted) {
  agent_options options;
  auto values = settings::load({process_environment(), {}, {}});
  if (!values)
    return values.error();
  options.values = std::move(*values);
  if (wanted.secret_file == "-") {
    if (auto problem = take_secret_from_launcher(options))
      return problem;
  } else {
    auto secret = wanted.secret_file.empty()
                      ? job_secret(options.values)
                      : read_secret_file(wanted.secret_file, "the secret file " + wanted.secret_file);
    if (!secret)
      return secret.error();
    if (secret->empty())
      return wrong(
          "it needs the job's secret: --secret-file FILE, FARANDOLE_SECRET_FILE or FARANDOLE_SECRET");
    options.secret = std::move(*secret);
  }
  if (wanted.forwarded) {
    if (auto problem = take_forwarded_ports(options))
      return problem;
  } else {
    const auto launcher = parse_launcher(wanted.launcher);
    if (!launcher)
      return launcher.error();
    auto addresses = resolve_launcher(*launcher, options.values);
    if (!addresses)
      return addresses.error();
    options.launcher = std::move(*addresses);
  }
  options.dial_timeout = std::chrono::seconds{wanted.dial_timeout_s};
  options.ends_with_worker = wanted.ends_with_worker;
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
      ->type_name("ADDRESS:PORT,...");
  app->add_flag(
      "--forwarded", wanted.forwarded,
      "the second line of the standard input names two ports of this host that ssh forwards to the "
      "launcher, instead of --launcher; the launcher uses this option where its addresses cannot be "
      "reached");
  app->add_option("--dial-timeout", wanted.dial_timeout_s,
                  "seconds for reaching the launcher (default: the start timeout)")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber);
  app->add_option("--secret-file", wanted.secret_file,
                  "file that holds the job's secret (default: FARANDOLE_SECRET_FILE, or the secret in "
                  "FARANDOLE_SECRET); "
                  "-: the first line of the standard input, whose end is then the end of the agent")
      ->type_name("FILE");
  app->add_option("--host", wanted.host, "name of this host in the job (default: its own name)")
      ->type_name("NAME");
  app->add_option("--slots", wanted.slots, "number of workers for this host (default: its usable cores)")
      ->check(CLI::Range(1, most_slots));
  app->add_flag("--ends-with-worker", wanted.ends_with_worker,
                "end with exit code 70 when a worker fails by itself, for clusters that then start the agent "
                "again, perhaps on another host");
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
  if (!problem && wanted.launcher.empty() != wanted.forwarded)
    problem = wrong("it needs either --launcher or --forwarded; see farandole agent --help");
  if (!problem && wanted.forwarded && wanted.secret_file != "-")
    problem = wrong("--forwarded needs --secret-file -; see farandole agent --help");
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
