#include "tests/world/elastic_job.hpp"

#include <algorithm>
#include <cassert>

#include "tests/world/elastic_faults.hpp"
#include "tests/world/later.hpp"

namespace farandole::testing {

namespace {

using std::chrono::seconds;

constexpr std::uint64_t clock_stream = 410;
constexpr std::int64_t most_drift_ppm = 1000;
constexpr process_id first_clock = -20, last_clock = 40; // more process numbers than any job uses
// A slow job of six members that send heartbeats takes about 5,000 steps per second.
constexpr std::uint64_t steps_allowed = 12'000'000;
// The time from the last fault to the end of the job: the sum of the timeouts below, and a margin.
constexpr seconds patience{900};
constexpr seconds elastic_timeout{120};

settings settings_of(const elastic_options& options) {
  auto values = settings::built_in();
  const auto assign = [&](setting which, std::int64_t value) {
    [[maybe_unused]] const auto problem =
        values.assign(which, std::to_string(value), setting_source::environment);
    assert(!problem);
  };
  assign(setting::elastic, 1);
  assign(setting::elastic_timeout, elastic_timeout.count());
  assign(setting::fast_path, options.one_machine ? 1 : 0);
  assign(setting::fast_path_area, std::int64_t{1} << 20);
  if (options.callers_run)
    assign(setting::fast_path_limit, 0);
  assign(setting::stall_check_disable, 1); // with the periodic stall check no job would become idle
  if (options.relays)
    assign(setting::relay_ranks, 1);
  assign(setting::operation_timeout, options.operation_timeout.count());
  assign(setting::stuck_timeout, options.stuck_timeout.count());
  if (!options.inline_tensors)
    assign(setting::inline_limit, 0);
  return values;
}

class elastic_run final : public elastic_world {
public:
  elastic_run(const elastic_options& options, bool transcript, elastic_scenario scenario)
      : options_(options), scenario_(std::move(scenario)), world_(options.seed),
        log_(transcript ? elastic_log::clock_text([this] { return time_text(); })
                        : elastic_log::clock_text{}),
        net_(world_, net_of(options), watcher()),
        plane_(options.seed, options.heartbeats,
               {[this](const set_key& set, std::int32_t place, std::int32_t members, const lane_task& task) {
                  log_.ran(set, place, members, task);
                },
                [this](const std::string& text) { log_.problem(text); }}),
        silences_(stuck_rules::of(settings_of(options))), stage_{world_,    world_.system(),
                                                                 options_,  net_,
                                                                 plane_,    log_,
                                                                 silences_, settings_of(options),
                                                                 {},        0},
        launcher_(stage_), service_(stage_), faults_(world_, stage_, launcher_, service_) {
    world_.step_limit(steps_allowed);
    launcher_.start(service_.for_launcher());
  }

  ~elastic_run() override { take_down(); }

  elastic_report run() {
    while (!launcher_.ended() && world_.now() < deadline()) {
      if (!world_.run_for(seconds(1))) {
        log_.problem("the job has not become idle after " + std::to_string(steps_allowed) + " messages");
        break;
      }
      if (options_.heartbeats)
        check_waits();
    }
    elastic_report report;
    report.trace = world_.trace_hash();
    judge(report);
    take_down();
    for (const auto& [slot, worker] : launcher_.workers())
      worker->check_settled();
    report.problems = log_.problems();
    report.transcript = log_.transcript();
    report.user_messages = launcher_.user_messages();
    report.last_slots = log_.slots();
    report.code = launcher_.code();
    report.sequence = log_.hash();
    report.generations = log_.generations();
    report.messages = net_.arrived();
    report.on_fast_path = log_.on_fast_path();
    report.faults = faults_.happened();
    return report;
  }

  // ---- for scenarios ----

  std::uint64_t generation() const override { return log_.generations(); }
  std::vector<std::int32_t> slots() const override { return log_.slots(); }
  void kill(std::int32_t slot) override { faults_.kill(slot); }
  void block_rendezvous(std::int32_t slot, bool present, bool back, bool blocked) override {
    faults_.disturb("the route between slot " + std::to_string(slot) + " and the rendezvous is " +
                    (blocked ? "blocked" : "free"));
    if (present)
      net_.block(elastic_worker::id_of(slot), service_.latest(), blocked);
    if (back)
      net_.block(service_.latest(), elastic_worker::id_of(slot), blocked);
  }
  void break_rendezvous_link(std::int32_t slot, std::chrono::nanoseconds late) override {
    faults_.disturb("the link between slot " + std::to_string(slot) + " and the rendezvous breaks");
    net_.break_links(elastic_worker::id_of(slot), service_.latest(), late);
  }
  void find(std::vector<host_slots> hosts) override {
    faults_.disturb("discovery finds other hosts");
    launcher_.find(std::move(hosts));
  }
  void crowd_rendezvous(std::size_t strangers, stranger_kind kind, std::chrono::nanoseconds lasts) override {
    faults_.disturb("strangers connect to the rendezvous");
    net_.crowd(service_.latest(), strangers, kind, world_.now() + lasts, options_.seed);
  }
  void stop(std::int32_t slot, std::chrono::nanoseconds lasts) override { faults_.stop(slot, lasts); }
  std::chrono::nanoseconds now() const override { return world_.now() - begin_; }
  void after(std::chrono::nanoseconds wait, std::function<void()> action) override {
    later(world_, no_process, wait, std::move(action));
  }
  elastic_service& service() override { return service_; }

private:
  static net_options net_of(const elastic_options& options) {
    return {options.seed,    options.latency_us, options.jitter_us,
            options.delayed, options.delay_us,   options.handshakes};
  }

  bool tell_processes_apart() {
    if (!options_.tells_processes_apart())
      return false;
    world_.all_processes().tell_apart();
    if (options_.own_clocks)
      give_clocks();
    return true;
  }

  // The launcher has the clock of the world; the other clocks are ahead of it by up to a day.
  void give_clocks() {
    dice draw(options_.seed, clock_stream);
    for (process_id process = first_clock; process <= last_clock; ++process)
      if (process != launcher_process)
        world_.all_processes().give_clock(
            process, {std::chrono::nanoseconds(draw.below(86'400'000'000'000)),
                      static_cast<std::int64_t>(draw.below(2 * most_drift_ppm + 1)) - most_drift_ppm});
  }

  net_watcher watcher() {
    net_watcher process;
    process.sent = [this](process_id from, process_id, const envelope& message) { sent(from, message); };
    process.arriving = [this](process_id from, process_id to, const envelope& message) {
      if (scenario_)
        scenario_(*this, from - 1, to - 1, message);
      faults_.arriving(from, to);
    };
    process.broken = [this](process_id a, process_id b) {
      log_.note([&] { return "the link breaks between " + name_of(a) + " and " + name_of(b); });
      if (service_.is_rendezvous(a) || service_.is_rendezvous(b))
        log_.cut_off(std::max(a, b) - 1);
    };
    process.problem = [this](const std::string& text) { log_.problem(text); };
    return process;
  }

  static std::string name_of(process_id process) {
    return process > launcher_process    ? "slot " + std::to_string(process - 1)
           : process == launcher_process ? "the launcher"
                                         : "the rendezvous";
  }

  std::string time_text() const {
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(world_.now() - begin_).count();
    auto digits = std::to_string(micros % 1'000'000);
    return std::to_string(micros / 1'000'000) + "." + std::string(6 - digits.size(), '0') + digits;
  }

  caf::actor_clock::time_point deadline() const {
    return std::max(faults_.last(), begin_ + options_.hosts.back().at) + patience + training_time();
  }

  // The time for the whole training at the pace of the slowest rank, which may wait for a minute before each
  // call.
  std::chrono::microseconds training_time() const {
    const bool slow = std::any_of(options_.faults.begin(), options_.faults.end(), [](const fault& injected) {
      return injected.kind == fault_kind::slow_rank;
    });
    const auto calls =
        static_cast<std::uint64_t>(options_.rounds) * static_cast<std::uint64_t>(options_.tensors + 1);
    return std::chrono::microseconds(calls * options_.think_us * (slow ? elastic_worker::slowness : 1));
  }

  void check_waits() {
    for (const auto& [slot, worker] : launcher_.workers())
      if (const auto standing = worker->waiting_now())
        for (const auto other : worker->slots_with_it())
          if (const auto text = silences_.objection(*standing, other, world_.now()); !text.empty())
            log_.problem(text);
  }

  // A member that another member reports as stuck rejoins as a new member, even if it is not stuck.
  void accused(const lost& loss) {
    if (loss.generation != log_.generations() || loss.generation == lost_generation_ || log_.is_doubled() ||
        !loss.reason.starts_with("has made no progress"))
      return;
    const auto slot = log_.slots().at(static_cast<std::size_t>(loss.rank));
    if (loss.stuck)
      log_.cut_off(slot);
    if (const auto text = silences_.false_alarm(slot, world_.now()); !text.empty())
      log_.problem(text);
  }

  void sent(process_id from, const envelope& message) {
    if (message.kind() == wire::Envelope::Body::FAREWELL)
      log_.farewell(from - 1);
    if (message.kind() == wire::Envelope::Body::LOST && from > launcher_process)
      if (const auto loss = decode_lost(message))
        accused(*loss);
    if (!service_.is_rendezvous(from))
      return;
    if (message.kind() == wire::Envelope::Body::WELCOME) {
      if (const auto greeting = decode_welcome(message)) {
        log_.welcomed(*greeting);
        service_.sends(from, *greeting);
      }
    } else if (message.kind() == wire::Envelope::Body::LOST) {
      if (const auto loss = decode_lost(message); loss && loss->generation != lost_generation_) {
        lost_generation_ = loss->generation;
        lost_at_ = world_.now();
        log_.note([&] {
          return "rank " + std::to_string(loss->rank) + " is lost in generation " +
                 std::to_string(loss->generation) + ": it " + loss->reason;
        });
      }
    }
    // A member for which the rendezvous has waited long enough rejoins as a new member.
    if ((lost_generation_ == log_.generations() && world_.now() - lost_at_ >= seconds(30)) ||
        world_.now() >= service_.gives_up_at())
      for (const auto& [slot, worker] : launcher_.workers())
        log_.cut_off(slot);
  }

  // ---- the end ----

  void judge(elastic_report& report) {
    for (const auto& [slot, worker] : launcher_.workers())
      report.finished += worker->finished();
    for (const auto& [slot, worker] : launcher_.workers())
      if (worker->failure() && !is_explained(*worker))
        log_.problem("slot " + std::to_string(slot) +
                     " failed although no fault explains it: " + worker->failure().text);
    if (!launcher_.ended()) {
      std::string text = "the job has not ended " + std::to_string(patience.count()) +
                         " s after the last fault and the time that training takes; it is in generation " +
                         std::to_string(log_.generations());
      for (const auto& [slot, worker] : launcher_.workers())
        if (worker->runs())
          text += ", slot " + std::to_string(slot) + " still runs";
      return log_.problem(text);
    }
    if (launcher_.code() == 0 && report.finished == 0)
      log_.problem("the job succeeded, although no member has completed training");
    if (launcher_.code() != 0 && launcher_.user_messages().empty() && service_.user_messages().empty())
      log_.problem("the job failed, but neither the launcher nor the rendezvous logged a reason");
  }

  // A process may fail by itself if it has waited in vain, because there are too few members or the others
  // have finished training.
  bool is_explained(const elastic_worker& worker) const {
    const auto& workers = launcher_.workers();
    const auto finished = std::any_of(workers.begin(), workers.end(),
                                      [](const auto& entry) { return entry.second->finished(); });
    if (worker.failure().kind == error_kind::timed_out)
      return launcher_.has_message("for more slots") || launcher_.has_message("no other hosts can come") ||
             finished;
    // A process that an impostor answers on its first contact cannot know that this is not the rendezvous of
    // the job.
    if (worker.failure().kind == error_kind::unknown &&
        net_.mistaken_at_first(elastic_worker::id_of(worker.slot())))
      return true;
    return worker.failure().kind == error_kind::precondition && (faults_.any() || finished);
  }

  // Releases every reference to objects of this job.
  void take_down() {
    if (std::exchange(taken_down_, true))
      return;
    world_.step_limit(2 * steps_allowed); // a job that exceeded the limit is taken down as well
    scenario_ = {};
    faults_.stop();
    world_.proceed_all();
    launcher_.take_down();
    world_.proceed_all(); // continues the processes that take_down() has killed
    service_.close();
    world_.run_for(seconds(60));
    service_.take_down();
    world_.run_for(seconds(60)); // messages in transit to the service arrive while the network exists
  }

  elastic_options options_;
  elastic_scenario scenario_;
  simulation world_;
  const bool told_apart_ = tell_processes_apart();
  const caf::actor_clock::time_point begin_ = world_.now();
  elastic_log log_;
  simulated_net net_;
  data_plane plane_;
  silence_watch silences_;
  elastic_stage stage_;
  elastic_launcher launcher_;
  elastic_service service_;
  elastic_faults faults_;
  std::uint64_t lost_generation_ = 0;
  caf::actor_clock::time_point lost_at_{};
  bool taken_down_ = false;
};

} // namespace

elastic_report run_elastic(const elastic_options& options, bool transcript, elastic_scenario scenario) {
  return elastic_run(options, transcript, std::move(scenario)).run();
}

std::string story_of(const elastic_options& options) {
  auto fewer = options;
  std::size_t count = 0;
  for (; count < options.faults.size(); ++count) {
    fewer.faults.assign(options.faults.begin(), options.faults.begin() + static_cast<std::ptrdiff_t>(count));
    if (!run_elastic(fewer).problems.empty())
      break;
  }
  fewer.faults.assign(options.faults.begin(), options.faults.begin() + static_cast<std::ptrdiff_t>(count));
  std::string text = "seed " + std::to_string(options.seed) + " fails with the first " +
                     std::to_string(count) + " of its " + std::to_string(options.faults.size()) +
                     " faults:\n";
  for (const auto& fault : fewer.faults)
    text += "  " + to_string(fault) + "\n";
  for (const auto& line : run_elastic(fewer, true).transcript)
    text += line + "\n";
  return text;
}

} // namespace farandole::testing
