#include "tools/farandole/chaos/options.hpp"

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "tools/farandole/cli/app_arguments.hpp"
#include "tools/farandole/cli/frameworks.hpp"

namespace farandole::chaos {

namespace {

constexpr std::int32_t most_processes = 64;
constexpr const char* usual_kinds = "kill,stop,drain,host,rendezvous";

constexpr const char* teaching = R"(
Everything from the first word that is no option on is the training script, which must be written for elastic
jobs (hvd.elastic.run). Each worker is on a host of its own; all of these are this machine. A script that ends
before its time is over is run again. At first it runs undisturbed, and what it says is compared: a line
"WEIGHTS ..." of its rank 0 must be the same, and the last number behind the word "accuracy" be reached.
The exit code is the job's; 124 where it had to be ended, 3 where the result is another one.

Examples:
  farandole chaos --seed 1 --duration 60 train.py             the usual faults, for a minute, on 4 workers
  farandole chaos --dry-run --seed 7 --duration 60            what seed 7 would do; starts nothing
  farandole chaos --plot faults.svg -np 8 --min-np 2 train.py --epochs 20
                                                              draws the steps per second, and where they were lost
  farandole chaos --faults drain,stop --every 5 --compare -np 3 python train.py
                                                              fails if the script says nothing to compare
  farandole chaos --faults link -np 2 --min-np 1 train.py     cuts the network between two hosts (as root)
)";

/// Options as the user gives them, before conversion.
struct given {
  double duration_s = 60, every_s = 10, deadline_s = 60;
  std::string kinds = usual_kinds;
  bool no_compare = false;
};

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * 1e3));
}

std::string kinds_footer() {
  std::string text = "\nFaults:\n";
  for (const auto& row : fault_table()) {
    const std::string name(row.name);
    text += "  " + name + std::string(12 - name.size(), ' ') + std::string(row.doc) + "\n";
  }
  return text;
}

std::unique_ptr<CLI::App> make_app(wishes& into, given& as) {
  auto app = std::make_unique<CLI::App>("Trains under faults that are drawn from a seed.", "farandole chaos");
  app->footer(kinds_footer() + teaching);
  app->add_option("--seed", into.schedule.seed, "what the faults are drawn from")->capture_default_str();
  app->add_option("--duration", as.duration_s, "for so many seconds there are faults")
      ->check(CLI::Range(0.1, 86400.0).description(""))
      ->capture_default_str();
  app->add_option("--every", as.every_s, "seconds between two faults, on average")
      ->check(CLI::Range(0.1, 3600.0).description(""))
      ->capture_default_str();
  app->add_option("--deadline", as.deadline_s, "a run of the script may take so many seconds longer")
      ->check(CLI::Range(0.0, 86400.0).description(""))
      ->capture_default_str();
  app->add_option("--faults", as.kinds, "which kinds, separated by commas")->capture_default_str();
  app->add_option("--num-proc", into.trial.processes, "how many workers (also -np)")
      ->check(CLI::Range(1, most_processes).description(""))
      ->capture_default_str();
  app->add_option("--min-np", into.trial.fewest, "fewest that it goes on with; by default, half of them")
      ->check(CLI::Range(1, most_processes).description(""));
  app->add_option("--tolerance", into.tolerance, "so much less than the undisturbed accuracy is enough")
      ->check(CLI::Range(0.0, 100.0).description(""))
      ->capture_default_str();
  app->add_option("--plot", into.plot, "draws steps per second, faults and pauses (SVG)")->type_name("FILE");
  app->add_flag("--compare", into.must_compare, "a script that says nothing to compare is a failure");
  app->add_flag("--no-compare", as.no_compare, "does not train undisturbed at first");
  app->add_flag("--dry-run", into.dry_run, "prints the faults and starts nothing");
  return app;
}

/// Puts the interpreter before a Python script that is not executable.
error find_interpreter(const std::string& called_as, std::vector<std::string>& command) {
  if (!command.front().ends_with(".py") || ::access(command.front().c_str(), X_OK) == 0)
    return {};
  if (::access(command.front().c_str(), R_OK) != 0)
    return {error_kind::invalid_argument, "there is no script " + command.front()};
  const auto python = find_python(called_as);
  if (!python)
    return {error_kind::invalid_argument,
            "there is no python3 for " + command.front() + " on PATH; write: python " + command.front()};
  command.insert(command.begin(), *python);
  return {};
}

/// Checks and derives the values that depend on several options.
error conclude(const CLI::App& app, const given& as, wishes& into) {
  into.trial.apart = into.wants(fault_kind::rendezvous) || into.wants(fault_kind::link);
  into.compare = !as.no_compare;
  if (into.must_compare && !into.compare)
    return {error_kind::invalid_argument, "--compare and --no-compare contradict each other"};
  if (into.dry_run)
    return {};
  if (into.trial.command.empty())
    return {error_kind::invalid_argument, "there is no script to train with"};
  if (app.count("--min-np") == 0)
    into.trial.fewest = std::max(1, into.trial.processes / 2);
  if (into.trial.fewest > into.trial.processes)
    return {error_kind::invalid_argument, "--min-np is larger than -np"};
  return {};
}

} // namespace

bool wishes::wants(fault_kind kind) const {
  return std::find(schedule.kinds.begin(), schedule.kinds.end(), kind) != schedule.kinds.end();
}

expected<wishes> parse_wishes(const std::string& called_as, const std::vector<std::string>& words) {
  wishes into;
  into.trial.processes = 4;
  given as;
  const auto app = make_app(into, as);
  auto parsed = parse_with(*app, words);
  if (!parsed)
    return parsed.error();
  into.trial.command = std::move(parsed->command);
  into.help = std::move(parsed->help);
  if (!into.help.empty())
    return into;
  auto wanted_kinds = parse_kinds(as.kinds);
  if (!wanted_kinds)
    return wanted_kinds.error();
  into.schedule.kinds = std::move(*wanted_kinds);
  into.schedule.duration = milliseconds(as.duration_s);
  into.schedule.every = milliseconds(as.every_s);
  into.deadline = milliseconds(as.deadline_s);
  if (auto problem = conclude(*app, as, into))
    return problem;
  if (!into.dry_run)
    if (auto problem = find_interpreter(called_as, into.trial.command))
      return problem;
  return into;
}

} // namespace farandole::chaos
