#include "tools/farandole/chaos/chaos.hpp"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>

#include "actors/launch/job_watch.hpp"
#include "tools/farandole/chaos/disturbance.hpp"
#include "tools/farandole/chaos/options.hpp"
#include "tools/farandole/chaos/plot.hpp"
#include "tools/farandole/chaos/report.hpp"
#include "tools/farandole/chaos/schedule.hpp"
#include "tools/farandole/chaos/trial.hpp"

namespace farandole {

namespace {

using namespace chaos;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr int bad_usage = 2;
constexpr int another_result = 3;
constexpr int late = 124; ///< the exit code of timeout(1)
/// Maximum time until all workers train for the first time. The text of an error names it, too.
constexpr auto start_time = 120s;

/// Blocks the signals that end a launcher and reads them from a signalfd, so that they end everything in order.
class interrupts {
public:
  interrupts() {
    const auto set = ending_signals();
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    waiting_ = descriptor{::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
    ::signal(SIGPIPE, SIG_IGN);
  }

  int descriptor_number() const { return waiting_.get(); }
  /// 128 + the number of the first signal; 0: none.
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

/// The progress of the schedule. A script that ends early is run again with the faults that are left.
struct course {
  std::vector<fault> left;
  std::chrono::milliseconds gone{}; ///< elapsed time of the schedule
  std::optional<clock::time_point> begin;
};

double milliseconds(clock::time_point when) {
  return std::chrono::duration<double, std::milli>(when.time_since_epoch()).count();
}

int wait_until_all_train(trial& running, std::int32_t processes, interrupts& signals) {
  const auto deadline = clock::now() + start_time;
  const auto all_train = [&] { return running.seen().begun() >= static_cast<std::size_t>(processes); };
  const char* problem = nullptr;
  while (!all_train() && !problem) {
    const bool runs = running.watch(20ms, signals.descriptor_number());
    if (signals.code() != 0)
      return signals.code();
    if (!runs && running.code() != 0)
      return running.code();
    if (!runs && !all_train())
      problem = "the script ended before all workers had come to hvd.elastic.run";
    else if (clock::now() >= deadline)
      problem = "not all workers have come to hvd.elastic.run within 120 s";
  }
  if (!problem)
    return 0;
  std::cerr << "farandole chaos: " << problem << std::endl;
  return late;
}

expected<run_result> train(const wishes& wanted, course& along, interrupts& signals) {
  auto running = trial::start(wanted.trial);
  if (!running)
    return running.error();
  run_result got;
  got.code = wait_until_all_train(*running, wanted.trial.processes, signals);
  if (got.code != 0)
    return got;
  const auto begin = clock::now();
  if (!along.begin)
    along.begin = begin;
  const auto last = begin + wanted.schedule.duration + wanted.deadline;
  disturbance disturb(*running, along.left, wanted.trial.fewest, begin - along.gone, last);
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
  got.begin_ms = milliseconds(begin);
  got.end_ms = milliseconds(clock::now());
  got.achieved = running->achieved();
  got.outcomes = disturb.outcomes();
  got.history = running->seen();
  along.left = disturb.left();
  along.gone = disturb.gone(clock::now());
  return got;
}

expected<std::vector<run_result>> train_under_faults(const wishes& wanted, course along,
                                                     interrupts& signals) {
  std::vector<run_result> runs;
  do {
    if (!runs.empty())
      std::cout << "farandole chaos: the script has ended; run " << runs.size() + 1 << std::endl;
    auto got = train(wanted, along, signals);
    if (!got)
      return got.error();
    runs.push_back(std::move(*got));
  } while (runs.back().code == 0 && !along.left.empty() &&
           clock::now() < *along.begin + wanted.schedule.duration);
  return runs;
}

int report(const wishes& wanted, const run_result* undisturbed, const std::vector<run_result>& runs) {
  std::size_t faults = 0;
  for (const auto& run : runs)
    faults += run.outcomes.size();
  const auto code = runs.back().code;
  std::cout << "\nfarandole chaos: seed " << wanted.schedule.seed << ", " << faults << " faults in "
            << runs.size() << (runs.size() == 1 ? " run" : " runs") << "\n\n"
            << table_of_faults(runs) << "\n"
            << table_of_runs(undisturbed, runs) << "\nexit code " << code
            << (code == late ? ": the job had to be ended" : "") << std::endl;
  if (!undisturbed || code != 0)
    return code;
  std::vector<achievement> achieved;
  for (const auto& run : runs)
    achieved.push_back(run.achieved);
  const auto judged = compare(undisturbed->achieved, achieved, wanted.tolerance, wanted.must_compare);
  std::cout << judged.text << std::flush;
  return judged.good ? 0 : another_result;
}

/// A picture that cannot be written is reported, but does not change the exit code.
void draw(const wishes& wanted, const std::vector<run_result>& runs) {
  if (wanted.plot.empty())
    return;
  std::ofstream file(wanted.plot);
  file << plot_of(runs, "farandole chaos: seed " + std::to_string(wanted.schedule.seed) + ", " +
                            std::to_string(wanted.trial.processes) + " workers");
  file.close();
  if (!file)
    std::cerr << "farandole chaos: the picture cannot be written to " << wanted.plot << std::endl;
}

int refuse(const std::string& reason) {
  std::cerr << "farandole chaos: " << reason << std::endl;
  return bad_usage;
}

int explain_undisturbed(int code) {
  std::cerr << "farandole chaos: undisturbed, the job ended with " << code;
  if (code == late)
    std::cerr << ": it had to be ended. Give it more time (--deadline), or compare nothing (--no-compare)";
  std::cerr << std::endl;
  return code;
}

int train_and_compare(const wishes& wanted) {
  interrupts signals;
  std::optional<run_result> undisturbed;
  if (wanted.compare) {
    std::cout << "farandole chaos: undisturbed at first (--no-compare leaves it out)" << std::endl;
    course nothing;
    auto got = train(wanted, nothing, signals);
    if (!got)
      return refuse(got.error().text);
    if (got->code != 0)
      return explain_undisturbed(got->code);
    undisturbed = std::move(*got);
    std::cout << "farandole chaos: now under faults" << std::endl;
  }
  const auto runs = train_under_faults(wanted, {draw_schedule(wanted.schedule), {}, {}}, signals);
  if (!runs)
    return refuse(runs.error().text);
  draw(wanted, *runs);
  return report(wanted, undisturbed ? &*undisturbed : nullptr, *runs);
}

int carry_out(wishes wanted) {
  if (wanted.dry_run) {
    for (const auto& injected : draw_schedule(wanted.schedule))
      std::cout << to_text(injected) << "\n";
    std::cout << std::flush;
    return 0;
  }
  std::unique_ptr<host_network> network;
  if (wanted.wants_network()) {
    auto made = host_network::make(wanted.trial.processes);
    if (!made)
      return refuse(made.error().text);
    network = std::move(*made);
    wanted.trial.network = network.get();
  }
  return train_and_compare(wanted);
}

} // namespace

int run_chaos(const std::string& called_as, const std::vector<std::string>& words) {
  const auto wanted = parse_wishes(called_as, words);
  if (!wanted)
    return refuse(wanted.error().text + "\nfarandole chaos --help tells more");
  if (!wanted->help.empty()) {
    std::cout << wanted->help << std::flush;
    return 0;
  }
  return carry_out(*wanted);
}

} // namespace farandole
