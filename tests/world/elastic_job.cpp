#include "tests/world/elastic_job.hpp"

#include <algorithm>
#include <csignal>
#include <map>
#include <memory>

#include "actors/launch/elastic_driver.hpp"
#include "actors/rendezvous.hpp"
#include "tests/world/elastic_worker.hpp"
#include "tests/world/simulation.hpp"

namespace farandole::testing {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t job_stream = 405;
constexpr std::uint64_t steps_allowed = 3'000'000;
// From the last fault to the end of the job: what the timeouts below sum to, and some more.
constexpr seconds patience{900};
constexpr seconds elastic_timeout{120};
constexpr seconds discovery_interval{1};

settings settings_of(const elastic_options& options) {
  auto values = settings::built_in();
  const auto assign = [&](setting which, std::int64_t value) {
    [[maybe_unused]] const auto problem =
        values.assign(which, std::to_string(value), setting_source::environment);
    assert(!problem);
  };
  assign(setting::elastic, 1);
  assign(setting::elastic_timeout, elastic_timeout.count());
  assign(setting::board, 0);
  assign(setting::stall_check_disable, 1); // who looks again and again lets no job come to rest
  if (options.relays)
    assign(setting::relay_ranks, 1);
  return values;
}

class elastic_run final : public elastic_world {
public:
  elastic_run(const elastic_options& options, bool transcript, elastic_scenario scenario)
      : options_(options), scenario_(std::move(scenario)), draw_(options.seed, job_stream),
        world_(options.seed), log_(transcript ? elastic_log::clock_text([this] { return time_text(); })
                                              : elastic_log::clock_text{}),
        net_(world_.system(), net_of(options), watcher()),
        plane_(options.seed, {[this](const set_key& set, std::int32_t place, std::int32_t members,
                                     const lane_job& job) { log_.ran(set, place, members, job); },
                              [this](const std::string& text) { log_.problem(text); }}),
        stage_{world_.system(), options_, net_, plane_, log_, settings_of(options)} {
    world_.step_limit(steps_allowed);
    begin_ = world_.now();
    hosts_ = options_.hosts.front().hosts;
    start_rendezvous();
    start_driver();
  }

  ~elastic_run() override { take_down(); }

  elastic_report run() {
    while (!ended_ && world_.now() < deadline())
      if (!world_.run_for(seconds(1))) {
        log_.problem("the job does not come to rest within " + std::to_string(steps_allowed) + " messages");
        break;
      }
    elastic_report report;
    report.trace = world_.trace_hash();
    judge(report);
    take_down();
    for (const auto& [slot, worker] : workers_)
      worker->check_settled();
    report.problems = log_.problems();
    report.transcript = log_.transcript();
    report.said = said_;
    report.last_slots = log_.slots();
    report.code = code_;
    report.sequence = log_.hash();
    report.generations = log_.generations();
    report.messages = net_.arrived();
    report.faults = next_fault_;
    return report;
  }

  // ---- for scenarios ----

  std::uint64_t generation() const override { return log_.generations(); }
  std::vector<std::int32_t> slots() const override { return log_.slots(); }
  void kill(std::int32_t slot) override {
    if (const auto found = workers_.find(slot); found != workers_.end() && found->second->runs()) {
      note_fault("slot " + std::to_string(slot) + " is killed");
      ++deaths_;
      found->second->kill(SIGKILL);
    }
  }
  void block_rendezvous(std::int32_t slot, bool there, bool back, bool blocked) override {
    note_fault("the way between slot " + std::to_string(slot) + " and the rendezvous is " +
               (blocked ? "blocked" : "free"));
    if (there)
      net_.block(elastic_worker::id_of(slot), launcher_process, blocked);
    if (back)
      net_.block(launcher_process, elastic_worker::id_of(slot), blocked);
  }
  void break_rendezvous_link(std::int32_t slot, std::chrono::nanoseconds late) override {
    note_fault("the link between slot " + std::to_string(slot) + " and the rendezvous breaks");
    net_.break_links(elastic_worker::id_of(slot), launcher_process, late);
  }
  void find(std::vector<host_slots> hosts) override {
    note_fault("discovery finds other hosts");
    told_hosts_ = true;
    hosts_ = std::move(hosts);
  }

private:
  static net_options net_of(const elastic_options& options) {
    return {options.seed, options.latency_us, options.jitter_us, options.delayed, options.delay_us};
  }

  net_watcher watcher() {
    net_watcher who;
    who.sent = [this](process_id from, process_id to, const envelope& message) { sent(from, to, message); };
    who.arriving = [this](process_id from, process_id to, const envelope& message) {
      arriving(from, to, message);
    };
    who.broken = [this](process_id a, process_id b) {
      log_.note([&] { return "a link breaks between " + name_of(a) + " and " + name_of(b); });
      if (a == launcher_process || b == launcher_process)
        log_.cut_off(std::max(a, b) - 1);
    };
    who.problem = [this](const std::string& text) { log_.problem(text); };
    return who;
  }

  static std::string name_of(process_id who) {
    return who == launcher_process ? "the rendezvous" : "slot " + std::to_string(who - 1);
  }

  std::string time_text() const {
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(world_.now() - begin_).count();
    auto digits = std::to_string(micros % 1'000'000);
    return std::to_string(micros / 1'000'000) + "." + std::string(6 - digits.size(), '0') + digits;
  }

  void note_fault(const std::string& text) {
    last_fault_ = world_.now();
    log_.note([&] { return "FAULT: " + text; });
  }

  caf::actor_clock::time_point deadline() const {
    return std::max(last_fault_, begin_ + options_.hosts.back().at) + patience;
  }

  // ---- the launcher's process ----

  void start_rendezvous() {
    rendezvous_options how;
    how.members = {options_.processes, true, options_.fewest, options_.most};
    how.settings = stage_.values;
    how.links.simulated = net_.links_of(launcher_process);
    how.bind_ip = simulated_net::address_of(launcher_process);
    auto service = farandole::start_rendezvous(world_.system(), how);
    assert(service);
    rendezvous_ = service->actor;
    stage_.rendezvous_port = service->port;
  }

  void start_driver() {
    elastic_driver_spec spec;
    spec.crew.processes = options_.processes;
    spec.crew.fewest = options_.fewest;
    spec.crew.most = options_.most;
    spec.crew.timeout = elastic_timeout;
    if (options_.cooldown)
      spec.crew.cooldown = blacklist::cooldown{seconds(1), seconds(8)};
    spec.hosts = hosts_;
    if (options_.hosts.size() > 1)
      spec.script.emplace();
    spec.times.grace = seconds(2);
    spec.seed = options_.seed;
    spec.slot_for = [this](const crew::start& where) -> expected<slot_spec> {
      caf::anon_send(rendezvous_, slot_started{where.slot});
      places_[where.slot] = where.host;
      slot_spec slot;
      slot.slot = where.slot;
      return slot;
    };
    spec.slot_exited = [this](std::int32_t slot, const std::string& how) {
      caf::anon_send(rendezvous_, slot_exited{slot, how});
    };
    spec.slot_retired = [this](std::int32_t slot) { caf::anon_send(rendezvous_, slot_retired{slot}); };
    spec.nobody_comes = [this] { caf::anon_send(rendezvous_, nobody_comes{}); };
    spec.finished = [this](int code) {
      ended_ = true;
      code_ = code;
    };
    auto hands = std::make_shared<simulated_hands>();
    hands->slot = [this](const slot_spec& what, const slot_owner_actor& driver) {
      return slot(what.slot, driver);
    };
    hands->discoverer = [this](const discovery_owner_actor& driver) { return discoverer(driver); };
    hands->say = [this](const std::string& line) {
      said_.push_back(line);
      log_.note([&] { return "launcher: " + line; });
    };
    spec.simulated = hands;
    driver_ = world_.system().spawn(elastic_driver, spec, nullptr);
    caf::anon_send(rendezvous_, watch_generations{driver_});
    caf::anon_send(driver_, start_atom::value);
  }

  slot_actor slot(std::int32_t number, const slot_owner_actor& driver) {
    auto spawned = world_.system().spawn([this, number, driver](caf::event_based_actor* self) {
      auto ended = [this, self = caf::actor_cast<caf::actor>(self)](const process_end& how) {
        caf::delayed_anon_send(self,
                               std::chrono::microseconds(draw_.below(how.signal != 0 ? 400'000 : 50'000)),
                               ended_atom::value);
      };
      auto& worker = workers_[number];
      auto how = std::make_shared<process_end>();
      worker = std::make_unique<elastic_worker>(stage_, number, places_.at(number),
                                                [how, ended](const process_end& end) {
                                                  *how = end;
                                                  ended(end);
                                                });
      return caf::behavior{
          [=, this](start_atom) {
            self->delayed_send(self, milliseconds(1 + draw_.below(300)), tick_atom::value);
          },
          [=, this](tick_atom) { workers_.at(number)->start(); },
          [=, this](signal_atom, int signal) { workers_.at(number)->kill(signal); },
          [=](ended_atom) {
            caf::anon_send(driver, slot_ended{number, *how, {}});
            caf::anon_send(driver, slot_finished{number});
            self->quit();
          },
      };
    });
    slots_.push_back(spawned);
    return caf::actor_cast<slot_actor>(spawned);
  }

  discoverer_actor discoverer(const discovery_owner_actor& driver) {
    discovery_ = world_.system().spawn([this, driver](caf::event_based_actor* self) {
      return caf::behavior{
          [=, this](run_atom) {
            caf::anon_send(driver, discovered());
            self->delayed_send(self, discovery_interval, run_atom::value);
          },
          [=](close_atom) { self->quit(); },
      };
    });
    return caf::actor_cast<discoverer_actor>(discovery_);
  }

  discovery_result discovered() {
    if (!told_hosts_)
      for (const auto& one : options_.hosts)
        if (world_.now() >= begin_ + one.at)
          hosts_ = one.hosts;
    discovery_result result;
    result.found.hosts = hosts_;
    ++answers_;
    const auto leave_one_out = [&] {
      if (result.found.hosts.size() > 1)
        result.found.hosts.erase(result.found.hosts.begin() +
                                 static_cast<std::ptrdiff_t>(lie_ % result.found.hosts.size()));
    };
    if (world_.now() < flaps_until_ && answers_ % 2 == 0)
      leave_one_out();
    if (world_.now() >= lies_until_)
      return result;
    if (lie_ % 3 == 0)
      result.problem = "the script failed";
    else if (lie_ % 3 == 1)
      result.found.hosts.clear();
    else
      leave_one_out();
    return result;
  }

  // ---- faults ----

  void sent(process_id from, process_id, const envelope& message) {
    if (from != launcher_process)
      return;
    if (message.kind() == wire::Envelope::Body::WELCOME) {
      if (const auto what = decode_welcome(message))
        log_.welcomed(*what);
    } else if (message.kind() == wire::Envelope::Body::LOST) {
      if (const auto what = decode_lost(message); what && what->generation != lost_generation_) {
        lost_generation_ = what->generation;
        lost_at_ = world_.now();
        log_.note([&] {
          return "rank " + std::to_string(what->rank) + " is lost in generation " +
                 std::to_string(what->generation) + ": " + what->reason;
        });
      }
    }
    // Whom the rendezvous has waited for long enough comes as a new one.
    if (lost_generation_ == log_.generations() && world_.now() - lost_at_ >= seconds(30))
      for (const auto& [slot, worker] : workers_)
        log_.cut_off(slot);
  }

  void arriving(process_id from, process_id to, const envelope& message) {
    if (scenario_)
      scenario_(*this, from - 1, to - 1, message);
    while (next_fault_ < options_.faults.size() && net_.arrived() >= options_.faults[next_fault_].at_message)
      apply(options_.faults[next_fault_++], from, to);
  }

  void apply(const fault& what, process_id from, process_id to) {
    note_fault(to_string(what));
    last_fault_ = world_.now() + what.lasts;
    const auto ends = what.pick % 2 == 0 ? from : to;
    const auto worker = ends == launcher_process ? from + to : ends;
    switch (what.kind) {
    case fault_kind::link_lost:
      return net_.break_links(from, to, milliseconds(what.pick % 3 == 0 ? 2000 : 5));
    case fault_kind::delay:
      net_.slow_down(what.lasts);
      return undo(what, [this] { net_.slow_down(seconds(0)); });
    case fault_kind::reorder:
      for (const auto& [slot, one] : workers_)
        net_.slow_down(elastic_worker::id_of(slot), milliseconds(draw_.below(20)));
      return undo(what, [this] {
        for (const auto& [slot, one] : workers_)
          net_.slow_down(elastic_worker::id_of(slot), seconds(0));
      });
    case fault_kind::partition:
    case fault_kind::partition_one_way:
      cut(worker, what.kind == fault_kind::partition, true);
      return undo(what, [this, worker] { cut(worker, true, false); });
    case fault_kind::death:
      return kill(worker - 1);
    case fault_kind::slow_rank:
      net_.slow_down(worker, milliseconds(20));
      plane_.slow_down(worker, 100);
      return workers_.at(worker - 1)->slow_down();
    case fault_kind::clock_jump:
      return world_.jump(what.lasts);
    case fault_kind::discovery_lies:
      lies_until_ = world_.now() + what.lasts;
      lie_ = what.pick;
      ++lies_;
      return;
    case fault_kind::discovery_flaps:
      flaps_until_ = world_.now() + what.lasts;
      lie_ = what.pick;
      ++lies_;
      return;
    }
  }

  // What goes to `who` is held up, and if `both`, what comes from it.
  void cut(process_id who, bool both, bool blocked) {
    for (process_id other = 0; other <= static_cast<process_id>(places_.size()); ++other)
      if (other != who) {
        net_.block(other, who, blocked);
        if (both)
          net_.block(who, other, blocked);
      }
  }

  void undo(const fault& what, std::function<void()> how) {
    world_.system().spawn([after = what.lasts, how = std::move(how)](caf::event_based_actor* self) {
      self->delayed_send(self, after, tick_atom::value);
      return caf::behavior{[=](tick_atom) {
        how();
        self->quit();
      }};
    });
  }

  // ---- the end ----

  void judge(elastic_report& report) {
    for (const auto& [slot, worker] : workers_)
      report.finished += worker->finished();
    for (const auto& [slot, worker] : workers_)
      if (worker->failure() && !excused(*worker))
        log_.problem("slot " + std::to_string(slot) + " failed by itself: " + worker->failure().text);
    if (!ended_) {
      std::string text = "the job does not end within " + std::to_string(patience.count()) +
                         " s after the last fault; generation " + std::to_string(log_.generations());
      for (const auto& [slot, worker] : workers_)
        if (worker->runs())
          text += ", slot " + std::to_string(slot) + " runs";
      return log_.problem(text);
    }
    if (code_ == 0 && report.finished == 0)
      log_.problem("the job ended well, and nobody came to the end of training");
    if (code_ != 0 && said_.empty())
      log_.problem("the job failed, and no reason was told");
  }

  bool said(const char* part) const {
    return std::any_of(said_.begin(), said_.end(),
                       [&](const std::string& line) { return line.find(part) != std::string::npos; });
  }

  // A process ends by itself when it has waited in vain, because there are too few.
  bool excused(const elastic_worker& worker) const {
    const bool disturbed = last_fault_ != caf::actor_clock::time_point{};
    const auto finished = std::any_of(workers_.begin(), workers_.end(),
                                      [](const auto& each) { return each.second->finished(); });
    if (worker.failure().kind == error_kind::timed_out)
      return said("for more slots") || said("no other hosts can come") || (disturbed && finished);
    return worker.failure().kind == error_kind::precondition && disturbed;
  }

  // Nothing may be left that still holds something of this job.
  void take_down() {
    if (std::exchange(taken_down_, true))
      return;
    scenario_ = {};
    next_fault_ = std::min(next_fault_, options_.faults.size());
    faults_off();
    for (auto& [slot, worker] : workers_)
      if (worker->runs())
        worker->kill(SIGKILL);
    for (auto& one : slots_)
      caf::anon_send_exit(one, caf::exit_reason::kill);
    slots_.clear();
    caf::anon_send_exit(driver_, caf::exit_reason::kill);
    caf::anon_send_exit(discovery_, caf::exit_reason::kill);
    caf::anon_send(rendezvous_, close_atom::value);
    world_.run_for(seconds(60));
    caf::anon_send_exit(rendezvous_, caf::exit_reason::kill);
    rendezvous_ = nullptr;
    driver_ = nullptr;
    discovery_ = nullptr;
    world_.run_until_quiet();
  }

  void faults_off() { options_.faults.clear(); }

  elastic_options options_;
  elastic_scenario scenario_;
  dice draw_;
  simulation world_;
  elastic_log log_;
  simulated_net net_;
  data_plane plane_;
  elastic_stage stage_;
  caf::actor_clock::time_point begin_{};
  caf::actor_clock::time_point last_fault_{};
  std::size_t next_fault_ = 0;
  int deaths_ = 0;
  int lies_ = 0;
  std::uint64_t lost_generation_ = 0;
  caf::actor_clock::time_point lost_at_{};

  rendezvous_actor rendezvous_;
  elastic_driver_actor driver_;
  caf::actor discovery_;
  std::vector<caf::actor> slots_;
  std::vector<host_slots> hosts_;
  bool told_hosts_ = false;
  std::uint64_t answers_ = 0;
  std::uint64_t lie_ = 0;
  caf::actor_clock::time_point lies_until_{};
  caf::actor_clock::time_point flaps_until_{};
  std::map<std::int32_t, std::string> places_; ///< hosts, by slot
  std::map<std::int32_t, std::unique_ptr<elastic_worker>> workers_;
  std::vector<std::string> said_;
  bool ended_ = false;
  bool taken_down_ = false;
  int code_ = -1;
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
  std::string text = "seed " + std::to_string(options.seed) + ", with " + std::to_string(count) + " of its " +
                     std::to_string(options.faults.size()) + " faults:\n";
  for (const auto& one : fewer.faults)
    text += "  " + to_string(one) + "\n";
  for (const auto& line : run_elastic(fewer, true).transcript)
    text += line + "\n";
  return text;
}

} // namespace farandole::testing
