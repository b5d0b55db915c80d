#include "tools/farandole/rsh.hpp"

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>

#include "actors/launch/remote_command.hpp"
#include "messages/settings/settings.hpp"
#include "messages/values/printable.hpp"
#include "tools/farandole/cli/app_arguments.hpp"
#include "tools/farandole/cli/job_record.hpp"
#include "tools/farandole/hosts.hpp"

namespace farandole {

namespace {

constexpr int bad_usage = 2;

constexpr const char* teaching = R"(
The command runs in a shell on that host, as a process of the job's agent there, in the present directory if the host
has it. Its standard streams are those of farandole rsh, signals go to it, and its exit code is returned; 255 if the
command was lost or could not be started. It ends with the job. On the launcher's own host it runs without an agent.

Examples:
  farandole rsh beta nvidia-smi               on the host that the launcher calls beta
  farandole rsh beta 'pgrep -u $USER python | xargs -n 1 py-spy dump --pid'
  farandole rsh --job train-4711 beta ls /data)";

struct wishes {
  std::string job;
};

int fail(const std::string& text, int code) {
  std::cerr << "farandole rsh: " << printable(text) << std::endl;
  return code;
}

/// As in ssh, the words of the command are joined, and the shell splits them again.
std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words)
    text += (text.empty() ? "" : " ") + word;
  return text;
}

/// Replaces this process by the shell. Returns only if that fails.
int run_here(const std::string& command) {
  ::execlp("sh", "sh", "-c", "--", command.c_str(), nullptr);
  return fail(std::string("sh: ") + std::strerror(errno), command_lost_code);
}

int run_in_job(const std::string& host, const std::string& command, const job_record& job) {
  if (is_this_host(host))
    return run_here(command);
  if (job.agent_port == 0)
    return fail("host " + host + " is not this host, and job " + job.name + " has no other",
                command_lost_code);
  auto values = settings::load({process_environment(), {}, {}});
  if (!values)
    return fail(values.error().text, bad_usage);
  remote_command_options options;
  options.ip = job.agent_ip;
  options.port = job.agent_port;
  options.secret = job.secret;
  options.host = host;
  options.command = command;
  std::error_code problem;
  options.directory = std::filesystem::current_path(problem).string();
  options.values = std::move(*values);
  return run_remote_command(options);
}

std::unique_ptr<CLI::App> make_app(wishes& wanted) {
  auto app = std::make_unique<CLI::App>("Runs a command on a host of a running job.", "farandole rsh");
  app->footer(teaching);
  app->add_option("--job", wanted.job, "the job, if several run: its name, or the path of its file")
      ->type_name("NAME|PATH");
  return app;
}

} // namespace

std::vector<option_description> rsh_options() {
  wishes wanted;
  return describe_options(*make_app(wanted));
}

int run_rsh(const std::vector<std::string>& words) {
  wishes wanted;
  const auto app = make_app(wanted);
  auto parsed = parse_with(*app, words);
  if (!parsed)
    return fail("error: " + parsed.error().text + "; see farandole rsh --help", bad_usage);
  if (!parsed->help.empty()) {
    std::cout << parsed->help << std::flush;
    return 0;
  }
  if (parsed->command.size() < 2)
    return fail("error: give a host and a command: farandole rsh HOST COMMAND; see farandole rsh --help",
                bad_usage);
  const auto host = parsed->command.front();
  const auto job = find_job(wanted.job, job_kind::any);
  if (!job)
    return fail(job.error().text, command_lost_code);
  return run_in_job(host, joined({parsed->command.begin() + 1, parsed->command.end()}), *job);
}

} // namespace farandole
