#include "tools/farandole/chaos/chaos.hpp"

#include <CLI/CLI.hpp>

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "tools/farandole/arguments.hpp"
#include "tools/farandole/chaos/disturbance.hpp"
#include "tools/farandole/chaos/report.hpp"
#include "tools/farandole/chaos/schedule.hpp"
#include "tools/farandole/chaos/trial.hpp"

namespace farandole {

namespace {

using namespace chaos;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr int bad_usage = 2;
constexpr int weights_differ = 3;
constexpr int late = 124; ///< as timeout(1) tells it
constexpr std::int32_t most_processes = 64;
/// Until all workers train for the first time.
constexpr auto start_time = 120s;

constexpr const char* teaching = R"(
Everything from the first word that is no option on is the training script, which must be written for elastic
jobs (hvd.elastic.run). Each worker is on a host of its own; all of these are this machine.
The script's rank 0 may print a line "WEIGHTS ..." at its end; --compare compares what follows.
The exit code is the job's; 124 where it had to be ended, 3 where the weights differ.

Examples:
  farandole chaos --dry-run --seed 7 --duration 60        what seed 7 would do
  farandole chaos --seed 7 --duration 60 -np 4 python train.py
  farandole chaos --faults drain,stop --every 5 --compare -np 3 python train.py)";

struct wishes {
  schedule_options schedule;
  trial_options trial;
  double duration_s = 60, every_s = 10, deadline_s = 60;
  std::string kinds = "kill,stop,drain,host,rendezvous";
  bool compare = false, dry_run = false, help = false;

  bool wants(fault_kind kind) const {
    return std::find(schedule.kinds.begin(), schedule.kinds.end(), kind) != schedule.kinds.end();
  }
};

std::unique_ptr<CLI::App> make_app(wishes& into) {
  auto app = std::make_unique<CLI::App>("Trains under faults that are drawn from a seed.", "farandole chaos");
  app->footer(teaching);
  app->add_option("--seed", into.schedule.seed, "what the faults are drawn from")->capture_default_str();
  app->add_option("--duration", into.duration_s, "for so many seconds there are faults")
      ->check(CLI::Range(0.1, 86400.0).description(""))
      ->capture_default_str();
  app->add_option("--every", into.every_s, "seconds between two faults, on average")
      ->check(CLI::Range(0.1, 3600.0).description(""))
      ->capture_default_str();
  app->add_option("--deadline", into.deadline_s, "then the script has so many seconds to come to its end")
      ->check(CLI::Range(0.0, 86400.0).description(""))
      ->capture_default_str();
  app->add_option("--faults", into.kinds, "which kinds, separated by commas")->capture_default_str();
  app->add_option("--num-proc", into.trial.processes, "how many workers (also -np)")
      ->check(CLI::Range(1, most_processes).description(""));
  app->add_option("--min-np", into.trial.fewest, "fewest that it goes on with; by default, half of them")
      ->check(CLI::Range(1, most_processes).description(""));
  app->add_flag("--compare", into.compare, "trains undisturbed at first, and compares the weights");
  app->add_flag("--dry-run", into.dry_run, "prints the faults and starts nothing");
  return app;
}

/// The options and, from the first other word on, the script.
error read(const std::vector<std::string>& words, CLI::App& app, wishes& into) {
  std::vector<option_shape> shapes;
  for (const auto* option : app.get_options()) {
    option_shape shape{option->get_name(), {}, option->get_expected_min() == 0 ? 0 : 1};
    if (shape.name == "--num-proc")
      shape.aliases = {"-np"};
    if (!option->get_snames().empty())
      shape.aliases.push_back("-" + option->get_snames().front());
    shapes.push_back(std::move(shape));
  }
  auto parsed = parse_arguments(shapes, words);
  if (!parsed)
    return parsed.error();
  into.trial.command = std::move(parsed->command);
  std::vector<std::string> options;
  for (const auto& each : parsed->options)
    options.push_back(each.values.empty() ? each.name : each.name + "=" + each.values.front());
  std::reverse(options.begin(), options.end());
  try {
    app.parse(options);
  } catch (const CLI::CallForHelp&) {
    into.help = true;
    return {};
  } catch (const CLI::ParseError& problem) {
    return {error_kind::invalid_argument, problem.what()};
  }
  auto kinds = parse_kinds(into.kinds);
  if (!kinds)
    return kinds.error();
  into.schedule.kinds = std::move(*kinds);
  into.trial.apart = into.wants(fault_kind::rendezvous) || into.wants(fault_kind::link);
  const auto milliseconds = [](double seconds) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
  };
  into.schedule.duration = milliseconds(into.duration_s);
  into.schedule.every = milliseconds(into.every_s);
  if (into.dry_run)
    return {};
  if (app.count("--num-proc") == 0)
    return {error_kind::invalid_argument, "how many workers? give -np"};
  if (into.trial.command.empty())
    return {error_kind::invalid_argument, "there is no script to train with"};
  if (app.count("--min-np") == 0)
    into.trial.fewest = std::max(1, into.trial.processes / 2);
  if (into.trial.fewest > into.trial.processes)
    return {error_kind::invalid_argument, "--min-np is larger than -np"};
  return {};
}

/// SIGINT, SIGTERM and SIGHUP, which end all of it in order.
class interrupts {
public:
  interrupts() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGHUP})
      sigaddset(&set, number);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    waiting_ = descriptor{::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
    ::signal(SIGPIPE, SIG_IGN);
  }

  int descriptor_number() const { return waiting_.get(); }
  /// 128 + the signal that came; 0: none.
  int code() {
    signalfd_siginfo info{};
    if (code_ == 0 && ::read(waiting_.get(), &info, sizeof info) == sizeof info)
      code_ = 128 + static_cast<int>(info.ssi_signo);
    return code_;
  }

private:
  descriptor waiting_;
  int code_ = 0;
};

/// How a run went.
struct result {
  int code = 0;
  std::optional<std::string> weights;
  std::vector<outcome> outcomes;
};

int wait_until_all_train(trial& running, std::int32_t processes, interrupts& signals) {
  const auto until = clock::now() + start_time;
  while (static_cast<std::int32_t>(running.seen().members().size()) < processes) {
    if (!running.watch(20ms, signals.descriptor_number()))
      return running.code() == 0 ? late : running.code();
    if (signals.code() != 0)
      return signals.code();
    if (clock::now() >= until) {
      std::cerr << "farandole chaos: not all workers have come to train" << std::endl;
      return late;
    }
  }
  return 0;
}

expected<result> train(const wishes& wanted, std::vector<fault> schedule, interrupts& signals) {
  auto running = trial::start(wanted.trial);
  if (!running)
    return running.error();
  result got;
  got.code = wait_until_all_train(*running, wanted.trial.processes, signals);
  if (got.code != 0)
    return got;
  const auto begin = clock::now();
  const auto last =
      begin + wanted.schedule.duration +
      std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(wanted.deadline_s));
  disturbance disturb(*running, std::move(schedule), wanted.trial.fewest, begin, last);
  while (running->watch(20ms, signals.descriptor_number())) {
    disturb.go_on(clock::now());
    got.code = signals.code() != 0 ? signals.code() : clock::now() >= last ? late : 0;
    if (got.code == 0)
      continue;
    running->end();
    break;
  }
  if (got.code == 0)
    got.code = running->code();
  got.weights = running->weights();
  got.outcomes = disturb.outcomes();
  return got;
}

std::string said(const std::optional<std::string>& weights) {
  return weights ? *weights : "none (the script has printed no line \"WEIGHTS ...\")";
}

int report(const wishes& wanted, const result& got, const std::optional<result>& undisturbed) {
  std::cout << "\nfarandole chaos: seed " << wanted.schedule.seed << ", " << got.outcomes.size()
            << " faults\n\n"
            << table_of(got.outcomes) << "\nexit code " << got.code
            << (got.code == late ? ": the job had to be ended" : "") << std::endl;
  if (!undisturbed)
    return got.code;
  const bool equal = got.weights && got.weights == undisturbed->weights;
  std::cout << "weights undisturbed: " << said(undisturbed->weights)
            << "\nweights disturbed:   " << said(got.weights) << "\nthey are "
            << (equal ? "equal" : "not equal") << std::endl;
  return got.code != 0 ? got.code : equal ? 0 : weights_differ;
}

int carry_out(wishes wanted) {
  const auto schedule = draw_schedule(wanted.schedule);
  if (wanted.dry_run) {
    for (const auto& each : schedule)
      std::cout << to_text(each) << "\n";
    std::cout << std::flush;
    return 0;
  }
  std::unique_ptr<host_network> network;
  if (wanted.wants(fault_kind::link)) {
    auto made = host_network::make(wanted.trial.processes);
    if (!made) {
      std::cerr << "farandole chaos: " << made.error().text << std::endl;
      return bad_usage;
    }
    network = std::move(*made);
    wanted.trial.network = network.get();
  }
  interrupts signals;
  std::optional<result> undisturbed;
  for (const bool disturb : {false, true}) {
    if (!disturb && !wanted.compare)
      continue;
    auto got = train(wanted, disturb ? schedule : std::vector<fault>{}, signals);
    if (!got) {
      std::cerr << "farandole chaos: " << got.error().text << std::endl;
      return bad_usage;
    }
    if (disturb)
      return report(wanted, *got, undisturbed);
    if (got->code != 0) {
      std::cerr << "farandole chaos: undisturbed, the job ended with " << got->code << std::endl;
      return got->code;
    }
    undisturbed = std::move(*got);
  }
  return bad_usage;
}

} // namespace

int run_chaos(const std::vector<std::string>& words) {
  wishes wanted;
  const auto app = make_app(wanted);
  if (const auto problem = read(words, *app, wanted)) {
    std::cerr << "farandole chaos: " << problem.text << "\nfarandole chaos --help tells more" << std::endl;
    return bad_usage;
  }
  if (wanted.help) {
    std::cout << app->help() << std::flush;
    return 0;
  }
  return carry_out(wanted);
}

} // namespace farandole
