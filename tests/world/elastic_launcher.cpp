#include "tests/world/elastic_launcher.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace farandole::testing {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t launcher_stream = 405;
constexpr seconds discovery_interval{1};

} // namespace

elastic_launcher::elastic_launcher(elastic_stage& stage)
    : stage_(stage), draw_(stage.options.seed, launcher_stream), begin_(now()),
      hosts_(stage.options.hosts.front().hosts) {}

void elastic_launcher::start(const caf::actor& rendezvous) {
  const running_process scope(stage_.world.all_processes(), launcher_process);
  driver_ = stage_.system.spawn(elastic_driver, spec(rendezvous));
  caf::anon_send(rendezvous, watch_generations{driver_});
  caf::anon_send(rendezvous, watch_fates{driver_});
  caf::anon_send(driver_, start_atom::value);
}

void elastic_launcher::take_down() {
  for (auto& [slot, worker] : workers_)
    if (worker->runs())
      worker->kill(SIGKILL);
  for (auto& actor : std::exchange(slots_, {}))
    caf::anon_send_exit(actor, caf::exit_reason::kill);
  caf::anon_send_exit(std::exchange(driver_, nullptr), caf::exit_reason::kill);
  caf::anon_send_exit(std::exchange(discovery_, nullptr), caf::exit_reason::kill);
}

bool elastic_launcher::has_message(const char* part) const {
  return std::any_of(user_messages_.begin(), user_messages_.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

elastic_worker* elastic_launcher::worker(std::int32_t slot) const {
  const auto found = workers_.find(slot);
  return found == workers_.end() ? nullptr : found->second.get();
}

// ---- the driver ----------------------------------------------------------------------------------

elastic_driver_spec elastic_launcher::spec(const caf::actor& rendezvous) {
  const auto& options = stage_.options;
  elastic_driver_spec spec;
  spec.scheduler.processes = options.processes;
  spec.scheduler.fewest = options.fewest;
  spec.scheduler.limit = options.limit;
  spec.scheduler.timeout = stage_.values.duration(setting::elastic_timeout);
  if (options.cooldown)
    spec.scheduler.cooldown = blacklist::cooldown{seconds(1), seconds(8)};
  spec.hosts = {hosts_, {}, {}};
  if (options.hosts.size() > 1)
    spec.script.emplace();
  spec.times = {.grace = seconds(2), .kill_after = seconds(5)};
  spec.seed = options.seed;
  spec.slot_for = [this, rendezvous](const worker_scheduler::start& start,
                                     const agent_hello*) -> expected<slot_spec> {
    caf::anon_send(rendezvous, slot_started{start.slot});
    places_[start.slot] = start.host;
    slot_spec slot;
    slot.slot = start.slot;
    return slot;
  };
  spec.slot_exited = [rendezvous](std::int32_t slot, const std::string& manner) {
    caf::anon_send(rendezvous, slot_exited{slot, manner});
  };
  spec.slot_retired = [rendezvous](std::int32_t slot) { caf::anon_send(rendezvous, slot_retired{slot}); };
  spec.no_more_starts = [rendezvous] { caf::anon_send(rendezvous, no_more_starts{}); };
  spec.finished = [this](int code) {
    ended_ = true;
    code_ = code;
  };
  auto hands = std::make_shared<farandole::hands>();
  hands->slot = [this](const slot_spec& value, const slot_owner_actor& driver) {
    return slot(value.slot, driver);
  };
  hands->discoverer = [this](const discoverer_spec&, const discovery_owner_actor& driver) {
    return discoverer(driver);
  };
  hands->say = [this](const std::string& line) {
    user_messages_.push_back(line);
    stage_.log.note([&] { return "launcher: " + line; });
  };
  // In the simulation the wall clock equals the actors' clock.
  hands->wall = [this] {
    return wall_time{std::chrono::duration_cast<milliseconds>(now().time_since_epoch())};
  };
  spec.hands = hands;
  return spec;
}

slot_actor elastic_launcher::slot(std::int32_t number, const slot_owner_actor& driver) {
  auto spawned = stage_.system.spawn([this, number, driver](caf::event_based_actor* self) {
    auto ended = [this, self = caf::actor_cast<caf::actor>(self)](const process_end& exit_status) {
      caf::delayed_anon_send(
          self, std::chrono::microseconds(draw_.below(exit_status.signal != 0 ? 400'000 : 50'000)),
          ended_atom::value);
    };
    auto& worker = workers_[number];
    auto process_status = std::make_shared<process_end>();
    worker = std::make_unique<elastic_worker>(stage_, number, places_.at(number),
                                              [process_status, ended](const process_end& end) {
                                                *process_status = end;
                                                ended(end);
                                              });
    return caf::behavior{
        [=, this](start_atom) {
          self->delayed_send(self, milliseconds(1 + draw_.below(300)), tick_atom::value);
        },
        [=, this](tick_atom) { workers_.at(number)->start(); },
        [=, this](signal_atom, int signal) { workers_.at(number)->kill(signal); },
        [=](ended_atom) {
          caf::anon_send(driver, slot_ended{number, *process_status, {}});
          caf::anon_send(driver, slot_finished{number});
          self->quit();
        },
    };
  });
  slots_.push_back(spawned);
  return caf::actor_cast<slot_actor>(spawned);
}

// ---- discovery -----------------------------------------------------------------------------------

discoverer_actor elastic_launcher::discoverer(const discovery_owner_actor& driver) {
  discovery_ = stage_.system.spawn([this, driver](caf::event_based_actor* self) {
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

discovery_result elastic_launcher::discovered() {
  if (!told_hosts_)
    for (const auto& host : stage_.options.hosts)
      if (now() >= begin_ + host.at)
        hosts_ = host.hosts;
  discovery_result result;
  auto& hosts = result.found.hosts = hosts_;
  ++answers_;
  if (now() < flaps_until_ && answers_ % 2 == 0)
    leave_one_out(hosts);
  if (now() >= lies_until_)
    return result;
  if (lie_ % 3 == 0)
    result.problem = "the discovery script failed";
  else if (lie_ % 3 == 1)
    hosts.clear();
  else
    leave_one_out(hosts);
  return result;
}

void elastic_launcher::leave_one_out(std::vector<host_slots>& hosts) const {
  if (hosts.size() > 1)
    hosts.erase(hosts.begin() + static_cast<std::ptrdiff_t>(lie_ % hosts.size()));
}

void elastic_launcher::find(std::vector<host_slots> hosts) {
  told_hosts_ = true;
  hosts_ = std::move(hosts);
}

void elastic_launcher::lie(time_point deadline, std::uint64_t number) {
  lies_until_ = deadline;
  lie_ = number;
}

void elastic_launcher::flap(time_point deadline, std::uint64_t number) {
  flaps_until_ = deadline;
  lie_ = number;
}

} // namespace farandole::testing
