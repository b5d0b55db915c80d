#include "tools/farandole/rendezvous.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <iostream>
#include <memory>

#include "actors/launch/launcher.hpp"
#include "actors/rendezvous/job_secret.hpp"
#include "messages/settings/settings.hpp"
#include "messages/values/printable.hpp"
#include "tools/farandole/cli/app_arguments.hpp"

namespace farandole {

namespace {

constexpr const char* teaching = R"(
Prints "IP:PORT" on a line of its own once it listens, and serves one job of N members until SIGINT or SIGTERM.

An elastic job (--min-np or --max-np) is launched beside it, with the same secret:

  FARANDOLE_SECRET_FILE=secret farandole run --rendezvous IP:PORT -np N --min-np M -H localhost:N python train.py

With --journal the process may fail: training continues, and a process that is started again with the same address
and journal resumes the job. In a job that is not elastic, start each member, on any host that can reach IP, with

  HOROVOD_RANK=<0..N-1> HOROVOD_SIZE=N HOROVOD_GLOO_RENDEZVOUS_ADDR=IP HOROVOD_GLOO_RENDEZVOUS_PORT=PORT
  FARANDOLE_SECRET_FILE=<a file with the same secret>

Example:
  (umask 077; openssl rand -hex 16 > secret)
  farandole rendezvous -np 4 --min-np 2 --port 4711 --secret-file secret --journal job.journal
  farandole rendezvous --size 2 --bind 10.0.0.1 --port 4711 --secret-file secret)";

struct wishes {
  membership_rules members;
  std::string bind = "127.0.0.1";
  std::uint16_t port = 0;
  std::string secret_file;
  std::string journal;
  bool ignore_journal_damage = false;
  int call_descriptor = -1; ///< socket of the program that has called this one; -1: none
};

expected<int> serve(const wishes& wanted) {
  auto values = settings::load({process_environment(), {}, {}});
  if (!values)
    return values.error();
  const auto secret = read_secret_file(wanted.secret_file, "the secret file " + wanted.secret_file);
  if (!secret)
    return secret.error();
  launcher_options options;
  options.members = wanted.members;
  options.values = *values;
  options.secret = *secret;
  options.bind_ips = {wanted.bind};
  options.port = wanted.port;
  options.journal = wanted.journal;
  options.ignore_journal_damage = wanted.ignore_journal_damage;
  options.apart = wanted.members.elastic;
  options.call_descriptor = wanted.call_descriptor;
  auto started = launcher::open(options);
  if (!started)
    return started.error();
  std::cout << wanted.bind << ":" << (*started)->port() << std::endl;
  return (*started)->serve();
}

/// Decides whether the job is elastic, and derives its rules.
error conclude(const CLI::App& app, wishes& wanted) {
  auto& members = wanted.members;
  const bool present = app.count("--min-np") > 0, condition = app.count("--max-np") > 0;
  members.elastic = present || condition;
  if (!members.elastic && !wanted.journal.empty())
    return {error_kind::invalid_argument, "--journal needs an elastic job: give --min-np or --max-np"};
  if (wanted.ignore_journal_damage && wanted.journal.empty())
    return {error_kind::invalid_argument, "--ignore-journal-damage needs the --journal that is damaged"};
  if (!present)
    members.minimum = members.size;
  if (!condition)
    members.limit = members.size;
  if (members.minimum > members.size || members.limit < members.size)
    return {error_kind::invalid_argument,
            "--min-np, -np and --max-np must not descend: " + std::to_string(members.minimum) + ", " +
                std::to_string(members.size) + ", " + std::to_string(members.limit)};
  return {};
}

std::unique_ptr<CLI::App> make_app(wishes& wanted) {
  auto app = std::make_unique<CLI::App>("Serves a job whose processes another launcher starts.",
                                        "farandole rendezvous");
  app->footer(teaching);
  auto& members = wanted.members;
  const auto count = [&](const char* names, std::int32_t& into, const char* doc) {
    return app->add_option(names, into, doc)->check(CLI::Range(1, 65536));
  };
  count("--size,--num-proc", members.size,
        "number of workers (also -np); an elastic job starts with this many")
      ->required();
  count("--min-np,--min-num-proc", members.minimum,
        "minimum number of workers of an elastic job (default: -np)");
  count("--max-np,--max-num-proc", members.limit,
        "maximum number of workers of an elastic job (default: -np)");
  app->add_option("--journal", wanted.journal,
                  "file that stores the state of an elastic job, so that this process can be restarted");
  app->add_flag("--ignore-journal-damage", wanted.ignore_journal_damage,
                "continue from the records before the damage; later ones are discarded");
  app->add_option("--bind", wanted.bind, "address of this host to listen on")->capture_default_str();
  app->add_option("--port", wanted.port, "port; 0: any free one")->capture_default_str();
  // Of farandole's own programs: a connected socket that this process inherits; it ends when the program that has called it
  // closes its end.
  app->add_option("--call-descriptor", wanted.call_descriptor)->group("");
  app->add_option("--secret-file", wanted.secret_file, "file that holds the job's secret")->required();
  return app;
}

} // namespace

std::vector<option_description> rendezvous_options() {
  wishes wanted;
  return describe_options(*make_app(wanted));
}

int run_rendezvous(const std::vector<std::string>& words) {
  wishes wanted;
  const auto app = make_app(wanted);
  const auto parsed = parse_with(*app, words);
  if (parsed && !parsed->help.empty()) {
    std::cout << parsed->help << std::flush;
    return 0;
  }
  error problem = parsed ? conclude(*app, wanted) : parsed.error();
  if (parsed && !parsed->command.empty())
    problem = {error_kind::invalid_argument, "it starts no command (got: " + parsed->command.front() + ")"};
  if (!parsed)
    problem.text += "; see farandole rendezvous --help";
  if (!problem) {
    const auto code = serve(wanted);
    if (code)
      return *code;
    problem = code.error();
  }
  std::cerr << "farandole rendezvous: " << printable(problem.text) << std::endl;
  return 2;
}

} // namespace farandole
