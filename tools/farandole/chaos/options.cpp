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
The training script begins at the first word that is not an option; it must use hvd.elastic.run. Each worker runs
on a simulated host of its own on this machine. The script first runs without faults. With faults, it runs again and
again until --duration is over. Then the output is compared: the line "WEIGHTS ..." of rank 0 must be the same, and
the last number after the word "accuracy" must be reached. The exit code is that of the job; 124 if the deadline
passed, 3 if the result differs.

Examples:
  farandole chaos --seed 1 --duration 60 train.py             the default faults, for a minute, on 4 workers
  farandole chaos --dry-run --seed 7 --duration 60            prints the faults of seed 7
  farandole chaos --plot faults.svg -np 8 --min-np 2 train.py --epochs 20
                                                              plots the steps per second and the pauses
  farandole chaos --faults drain,stop --every 5 --compare -np 3 python train.py
                                                              fails if the script prints nothing to compare
  farandole chaos --faults link -np 2 --min-np 1 train.py     cuts the network between two hosts (as root)
  farandole chaos --faults agent,shell,cut -np 3 train.py     disturbs what connects launcher and hosts (as root)
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
  auto app = std::make_unique<CLI::App>(
      "Runs a training script while it injects faults that a seed determines, and checks the result.",
      "farandole chaos");
  app->footer(kinds_footer() + teaching);
  app->add_option("--seed", into.schedule.seed, "determines the faults: the same seed injects the same ones")
      ->capture_default_str();
  app->add_option("--duration", as.duration_s, "seconds during which faults are injected")
      ->check(CLI::Range(0.1, 86400.0).description(""))
      ->capture_default_str();
  app->add_option("--every", as.every_s, "mean seconds between two faults")
      ->check(CLI::Range(0.1, 3600.0).description(""))
      ->capture_default_str();
  app->add_option("--deadline", as.deadline_s, "seconds that a run of the script may take beyond that")
      ->check(CLI::Range(0.0, 86400.0).description(""))
      ->capture_default_str();
  app->add_option("--faults", as.kinds, "kinds of faults, separated by commas")->capture_default_str();
  app->add_option("--num-proc", into.trial.processes, "number of workers (also -np)")
      ->check(CLI::Range(1, most_processes).description(""))
      ->capture_default_str();
  app->add_option("--min-np", into.trial.fewest, "minimum number of workers (default: half of them)")
      ->check(CLI::Range(1, most_processes).description(""));
  app->add_option("--tolerance", into.tolerance, "accepted loss of accuracy against the undisturbed run")
      ->check(CLI::Range(0.0, 100.0).description(""))
      ->capture_default_str();
  app->add_option("--plot", into.plot, "writes a plot of steps per second, faults and pauses (SVG)")
      ->type_name("FILE");
  app->add_flag("--compare", into.must_compare, "fails if the script prints nothing to compare");
  app->add_flag("--no-compare", as.no_compare, "skips the undisturbed run");
  app->add_flag("--dry-run", into.dry_run, "prints the faults and starts no job");
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
  into.trial.apart = into.wants(fault_kind::rendezvous) || into.wants_network();
  into.trial.agents =
      std::ranges::any_of(into.schedule.kinds, [](fault_kind kind) { return row_of(kind).needs_agents; });
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

bool wishes::wants_network() const {
  return std::ranges::any_of(schedule.kinds, [](fault_kind kind) { return row_of(kind).needs_network; });
}

std::vector<option_description> options() {
  wishes into;
  into.trial.processes = 4;
  given as;
  return describe_options(*make_app(into, as));
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
