#include "tools/farandole/elastic_options.hpp"

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "tools/farandole/cli/endpoint.hpp"

namespace farandole {

namespace {

error wrong(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

/// Warns of options that have an effect only in an elastic job, instead of ignoring them silently.
void warn_of_unused(const CLI::App& app, std::vector<std::string>& warnings) {
  for (const char* name : {"--max-num-proc", "--slots-per-host", "--elastic-timeout", "--reset-limit",
                           "--blacklist-cooldown-range", "--journal"})
    if (app.count(name) > 0)
      warnings.push_back(std::string("WARNING: ") + name +
                         " has no effect: only --min-np or --host-discovery-script make a job elastic");
}

/// A job for which the user has named a rendezvous must not silently get another one.
error find_rendezvous(const elastic_options& options, run_request& request) {
  if (options.rendezvous.empty())
    return {};
  if (request.session)
    return wrong("--rendezvous cannot be combined with --session: a session has a rendezvous of its own");
  if (!options.journal.empty())
    return wrong(
        "--journal and --rendezvous exclude each other: the rendezvous that runs apart keeps the journal: "
        "farandole rendezvous --journal " +
        options.journal);
  const auto place = endpoint::parse(options.rendezvous);
  if (!place)
    return wrong("--rendezvous " + options.rendezvous + " is no HOST:PORT");
  request.rendezvous_ip = place->host;
  request.rendezvous_port = place->port;
  if (request.values.text(setting::secret_file).empty() && request.values.text(setting::secret).empty())
    return wrong(
        "--rendezvous needs that rendezvous' secret: set FARANDOLE_SECRET_FILE to its --secret-file");
  return {};
}

} // namespace

void add_elastic_options(CLI::App& app, elastic_options& into) {
  app.add_option("--min-np,--min-num-proc", into.fewest,
                 "Minimum number of workers (default: -np). Makes the job elastic: it continues when workers "
                 "fail.")
      ->type_name("INT");
  app.add_option("--max-np,--max-num-proc", into.limit,
                 "Maximum number of workers (default: -np; with --agents and without -np, no limit).")
      ->type_name("INT");
  app.add_option(
         "--slots-per-host,--slots", into.slots_per_host,
         "Number of slots of hosts for which the script prints none (default: such a line is an error).")
      ->type_name("INT");
  app.add_option(
         "--reset-limit", into.reset_limit,
         "Maximum number of times that workers fail, join or leave before the job ends (default: unlimited).")
      ->type_name("INT");
  app.add_option("--blacklist-cooldown-range", into.cooldown,
                 "Seconds for which a host gets no new workers after one failed there: LOW at first, about "
                 "doubled each time, at most HIGH (default: for ever).")
      ->type_name("LOW HIGH")
      ->expected(2)
      ->check(CLI::Range(1, 3600).description(""));
  app.add_option(
         "--journal", into.journal,
         "File in which the rendezvous stores the state of the job; one launcher at a time can use it.")
      ->type_name("FILE");
  app.add_option(
         "--rendezvous", into.rendezvous,
         "Address of a separate rendezvous (farandole rendezvous), which can be restarted. Its secret is "
         "in FARANDOLE_SECRET_FILE.")
      ->type_name("IP:PORT");
}

error plan_elasticity(const CLI::App& app, const elastic_options& options, run_request& request,
                      std::vector<std::string>& warnings) {
  const auto was_given = [&](const char* name) { return app.count(name) > 0; };
  if (request.session && request.call_descriptor < 0)
    return wrong("--session needs --call-descriptor: call farandole.session() in Python");
  request.elastic = request.session || was_given("--min-num-proc") || !request.discovery_script.empty();
  if (!request.elastic) {
    if (was_given("--rendezvous") && was_given("--agents"))
      return wrong("--rendezvous with --agents needs an elastic job: give --min-np");
    if (was_given("--rendezvous"))
      return wrong("--rendezvous needs an elastic job: give --min-np or --host-discovery-script");
    warn_of_unused(app, warnings);
    return {};
  }
  auto& scheduler = request.scheduler;
  scheduler.processes = request.processes;
  scheduler.fewest = was_given("--min-num-proc") ? options.fewest : request.processes;
  scheduler.serves_calls = request.session;
  // Agents that come later may add workers if there is no -np, and the caller of a session may want any number.
  const bool can_grow = request.session || (was_given("--agents") && !was_given("--num-proc"));
  scheduler.limit = was_given("--max-num-proc") ? options.limit : can_grow ? most_slots : request.processes;
  if (scheduler.fewest < 1 || scheduler.fewest > scheduler.processes)
    return wrong("--min-np " + std::to_string(scheduler.fewest) + " is out of range: 1 to the " +
                 std::to_string(scheduler.processes) + " of -np");
  if (scheduler.limit < scheduler.processes || scheduler.limit > most_slots)
    return wrong("--max-np " + std::to_string(scheduler.limit) + " is out of range: the " +
                 std::to_string(scheduler.processes) + " of -np to " + std::to_string(most_slots));
  if (was_given("--slots-per-host")) {
    if (options.slots_per_host < 1 || options.slots_per_host > most_slots)
      return wrong("--slots-per-host " + std::to_string(options.slots_per_host) + " is out of range: 1 to " +
                   std::to_string(most_slots));
    request.slots_per_host = options.slots_per_host;
  }
  if (was_given("--reset-limit")) {
    if (options.reset_limit < 0)
      return wrong("--reset-limit " + std::to_string(options.reset_limit) + " is out of range: 0 or more");
    scheduler.reset_limit = options.reset_limit;
  }
  if (options.cooldown.size() == 2) {
    scheduler.cooldown = {std::chrono::seconds(options.cooldown[0]),
                          std::chrono::seconds(options.cooldown[1])};
    if (scheduler.cooldown->lowest > scheduler.cooldown->highest)
      return wrong("--blacklist-cooldown-range " + std::to_string(options.cooldown[0]) + " " +
                   std::to_string(options.cooldown[1]) + ": the first number must not be larger");
  }
  scheduler.timeout = request.values.duration(setting::elastic_timeout);
  request.journal = options.journal;
  if (auto problem = find_rendezvous(options, request))
    return problem;
  if (auto problem = request.values.assign(setting::elastic, "1", setting_source::flag))
    return problem;
  return {};
}

error find_script(std::string& script) {
  std::error_code problem;
  const auto path = std::filesystem::absolute(script, problem);
  if (problem || !std::filesystem::is_regular_file(path, problem))
    return script.find_first_of(" \t\n") != std::string::npos
               ? error{}
               : wrong("--host-discovery-script: there is no file " + script);
  if (::access(path.c_str(), X_OK) != 0)
    return wrong("--host-discovery-script: " + script + " cannot be executed; chmod +x " + script);
  script = path;
  return {};
}

} // namespace farandole
