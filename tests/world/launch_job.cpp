#include "tests/world/launch_job.hpp"

#include <caf/all.hpp>

#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "actors/launch/agent_registry.hpp"
#include "actors/launch/elastic_driver.hpp"
#include "actors/launch/far_slot.hpp"
#include "actors/launch/hands.hpp"
#include "actors/launch/host_driver.hpp"
#include "actors/launch/host_gatherer.hpp"
#include "actors/launch/reach_checker.hpp"
#include "tests/world/dice.hpp"
#include "tests/world/later.hpp"
#include "tests/world/launch_hosts.hpp"
#include "tests/world/launch_sink.hpp"
#include "tests/world/launch_worker.hpp"
#include "tests/world/simulated_net.hpp"
#include "tests/world/simulation.hpp"

namespace farandole::testing {

namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint64_t options_stream = 500;
constexpr milliseconds reader_interval{10};
constexpr std::size_t held_bytes = std::size_t{64}
                                   << 10; ///< of a stream, before the launcher's output is full

class launch_world {
public:
  explicit launch_world(const launch_options& options)
      : options_(options), world_(options.seed),
        net_(world_, net_options{options.seed, 50, 200, 50, 5000, {}}, watcher()),
        hosts_(options_, world_, net_, [this](std::string text) { problem(std::move(text)); }) {
    world_.all_processes().tell_apart();
    world_.step_limit(500'000'000);
  }

  launch_report run() {
    const auto begin = world_.now();
    start_launcher();
    for (const auto& fault : options_.faults)
      later(world_, no_process, fault.at, [this, fault] { happen(fault); });
    const auto longest = minutes(20);
    while (!over_ && world_.now() - begin < longest)
      if (!world_.run_for(milliseconds(100)))
        problem("the job is in a livelock");
    if (!over_)
      problem("the job has not ended after 20 minutes");
    end_launcher();
    // No agent, command and worker may be left: the launcher gives agents 10 s, an agent gives its workers 5 s, and a
    // link that is cut off ends after the link timeout.
    world_.run_for(seconds(10) + seconds(5) + 2 * launch_hosts::link_timeout);
    check_end();
    report_.trace = world_.trace_hash();
    report_.agents = hosts_.agents();
    report_.workers = hosts_.workers_run();
    take_down();
    return std::move(report_);
  }

private:
  // ---- the launcher ----

  void start_launcher() {
    const running_process scope(world_.all_processes(), launcher_process);
    agent_registry_spec spec;
    spec.rules.start_timeout = seconds(30);
    spec.rules.retries = options_.elastic;
    spec.rules.version = "1";
    spec.place.name = "ssh";
    spec.place.programs = "farandole";
    spec.place.command = [](std::span<const std::string> hosts, std::uint16_t) {
      return std::vector<std::string>{"start", hosts.front()};
    };
    spec.slots = [this](const slot_spec& command, const std::shared_ptr<output_sink>& sink,
                        const slot_owner_actor& owner) { return hosts_.start_command(command, sink, owner); };
    registry_ = world_.system().spawn(agent_registry, spec);
    link_settings links;
    links.simulated = net_.links_of(launcher_process);
    auto opened = listen(world_.system(), simulated_net::address_of(launcher_process), 0,
                         caf::actor_cast<caf::actor>(registry_), links);
    hosts_.launcher_listens_at(opened->port);
    caf::anon_send(registry_, std::move(*opened));
    options_.elastic ? start_elastic_driver() : gather();
  }

  std::shared_ptr<hands> make_hands() {
    auto made = std::make_shared<hands>();
    made->slot = [this](const slot_spec& spec, const slot_owner_actor& driver) -> slot_actor {
      const running_process scope(world_.all_processes(), launcher_process);
      auto sink = std::make_shared<launch_sink>(
          spec.slot, held_bytes, [this] { read_output(); },
          [this](std::string text) { problem(std::move(text)); });
      sinks_[spec.slot] = sink;
      const auto made_slot = world_.system().spawn(
          far_slot, far_slot_spec{spec, true, options_.window_bytes, sink, registry_}, driver);
      far_slots_.push_back(caf::actor_cast<caf::actor>(made_slot));
      return made_slot;
    };
    made->say = [this](const std::string& line) { report_.user_messages.push_back(line); };
    made->wall = [this] {
      return wall_time{std::chrono::duration_cast<milliseconds>(world_.now().time_since_epoch())};
    };
    made->agents = registry_;
    return made;
  }

  slot_spec spec_of(std::int32_t slot, const std::string& host) const {
    slot_spec spec;
    spec.slot = slot;
    spec.host = spec.agent = host;
    spec.process.arguments = {"train"};
    return spec;
  }

  void gather() {
    host_gatherer_spec spec;
    for (std::int32_t host = 0; host < options_.hosts; ++host)
      spec.hosts.push_back(launch_hosts::name_of(host));
    spec.count = spec.hosts.size();
    spec.placer = "ssh";
    spec.agents = registry_;
    spec.say = [this](const std::string& line) { report_.user_messages.push_back(line); };
    spec.finished = [this](int code, const std::map<std::string, agent_hello>& facts) {
      if (code != 0)
        return finish(code);
      if (static_cast<std::int32_t>(facts.size()) != options_.hosts)
        problem("workers start although an agent is missing");
      options_.networks > 1 && options_.hosts > 1 ? test_hosts(facts) : start_host_driver();
    };
    const auto gatherer = world_.system().spawn(host_gatherer, spec);
    interrupt_ = [gatherer](int signal) { caf::anon_send(gatherer, interrupt_atom::value, signal); };
    caf::anon_send(gatherer, start_atom::value);
  }

  /// The hosts test their addresses. The job is to start if each host has an address that all others reach.
  void test_hosts(const std::map<std::string, agent_hello>& facts) {
    const running_process scope(world_.all_processes(), launcher_process);
    std::vector<host_networks> hosts;
    reach_checker_spec spec;
    for (const auto& [name, agent] : facts) {
      hosts.push_back({name, agent.addresses, agent.machine, agent.own});
      spec.hosts.push_back({name, {}});
      for (const auto& address : agent.addresses)
        spec.hosts.back().candidates.push_back(address.address);
    }
    spec.timeout = seconds(10);
    spec.agents = registry_;
    spec.say = [this](const std::string& line) { report_.user_messages.push_back(line); };
    spec.finished = [this, hosts](int code, const reach_results& results) mutable {
      if (code != 0)
        return finish(code);
      for (auto& host : hosts)
        host.attempts = results.at(host.host);
      const auto chosen = choose_networks(hosts, {});
      const auto missing = missing_networks(chosen, {});
      check_choice(chosen, !missing);
      if (!missing)
        return start_host_driver();
      report_.user_messages.push_back(missing.text);
      report_.apart = true;
      finish(1);
    };
    started_with(world_.system().spawn(reach_checker, spec));
  }

  void check_choice(const std::map<std::string, usable_networks>& chosen, bool starts) {
    if (!options_.faults.empty())
      return; // a host that is cut off has not reported everything
    const auto all_reach = [this](std::int32_t host, std::int32_t network) {
      for (std::int32_t from = 0; from < options_.hosts; ++from)
        if (from != host && !hosts_.reaches(from, host, network))
          return false;
      return true;
    };
    bool should_start = true;
    for (std::int32_t host = 0; host < options_.hosts; ++host) {
      const auto& addresses = chosen.at(launch_hosts::name_of(host)).addresses;
      bool has_address = false;
      for (std::int32_t network = 0; network < options_.networks; ++network) {
        has_address = has_address || all_reach(host, network);
        if (!addresses.empty() && addresses.front().address == launch_hosts::address_of(host, network) &&
            !all_reach(host, network))
          problem("the chosen address " + addresses.front().address + " is not reached by all hosts");
      }
      should_start = should_start && has_address;
    }
    if (starts != should_start)
      problem(starts ? "the job starts although some hosts do not reach each other"
                     : "the job does not start although all hosts reach each other");
  }

  void start_host_driver() {
    const running_process scope(world_.all_processes(), launcher_process);
    host_driver_spec spec;
    spec.hands = make_hands();
    for (std::int32_t slot = 0; slot < options_.hosts * options_.slots; ++slot)
      spec.slots.push_back(spec_of(slot, launch_hosts::name_of(slot / options_.slots)));
    spec.times = {.grace = seconds(2), .kill_after = seconds(5)};
    spec.slot_exited = [](std::int32_t, const std::string&) {};
    spec.slot_complete = [this](std::int32_t slot) { complete_.insert(slot); };
    spec.finished = [this](int code) { finish(code); };
    const auto driver = world_.system().spawn(host_driver, spec);
    started_with(driver);
  }

  void start_elastic_driver() {
    elastic_driver_spec spec;
    spec.hands = make_hands();
    spec.scheduler.processes = options_.hosts * options_.slots;
    spec.scheduler.fewest = 1;
    spec.scheduler.limit = options_.hosts * options_.slots;
    spec.scheduler.timeout = seconds(60);
    spec.scheduler.cooldown = blacklist::cooldown{seconds(1), seconds(4)};
    for (std::int32_t host = 0; host < options_.hosts; ++host) {
      spec.hosts.hosts.push_back({launch_hosts::name_of(host), options_.slots});
      spec.hosts.remote.insert(launch_hosts::name_of(host));
    }
    spec.times = {.grace = seconds(2), .kill_after = seconds(5)};
    spec.seed = options_.seed;
    spec.slot_for = [this](const worker_scheduler::start& start,
                           const agent_hello* agent) -> expected<slot_spec> {
      if (!agent)
        problem("worker " + std::to_string(start.slot) + " starts on " + start.host + ", which has no agent");
      return spec_of(start.slot, start.host);
    };
    spec.slot_complete = [this](std::int32_t slot) { complete_.insert(slot); };
    spec.finished = [this](int code) { finish(code); };
    started_with(world_.system().spawn(elastic_driver, spec));
    form_generations();
  }

  /// In place of a rendezvous: the running workers form a generation whenever they have changed.
  void form_generations() {
    later(world_, no_process, milliseconds(50), [this] {
      std::vector<std::int32_t> slots;
      for (const auto& [slot, worker] : hosts_.workers())
        if (worker->runs)
          slots.push_back(slot);
      if (slots != generation_slots_ && !slots.empty())
        caf::anon_send(caf::actor_cast<elastic_driver_actor>(driver_),
                       generation_formed{++generation_, slots});
      generation_slots_ = std::move(slots);
      if (!over_)
        form_generations();
    });
  }

  template <class Driver>
  void started_with(const Driver& driver) {
    driver_ = caf::actor_cast<caf::actor>(driver);
    interrupt_ = [driver](int signal) { caf::anon_send(driver, interrupt_atom::value, signal); };
    caf::anon_send(driver, start_atom::value);
  }

  void finish(int code) {
    if (over_)
      problem("the job has ended twice");
    over_ = true;
    report_.code = code;
  }

  void end_launcher() {
    if (!launcher_killed_)
      caf::anon_send(registry_, close_atom::value);
  }

  void read_output() {
    if (std::exchange(reading_, true))
      return;
    later(world_, launcher_process, reader_interval, [this] {
      reading_ = false;
      if (launcher_killed_)
        return;
      for (const auto& [slot, sink] : sinks_)
        if (!sink->empty()) {
          sink->read(options_.read_bytes);
          read_output();
        }
    });
  }

  // ---- faults ----

  void happen(const planned_fault& fault) {
    if (over_ || launcher_killed_)
      return;
    ++report_.faults;
    if (fault.kind == launch_fault::interrupted)
      return interrupt_(SIGINT);
    if (fault.kind == launch_fault::launcher_killed)
      return kill_launcher();
    if (!hosts_.strike(fault))
      --report_.faults;
  }

  void kill_launcher() {
    launcher_killed_ = true;
    over_ = true;
    net_.end_process(launcher_process);
    caf::anon_send_exit(driver_, caf::exit_reason::kill);
    caf::anon_send_exit(registry_, caf::exit_reason::kill);
    hosts_.lose_launcher();
  }

  // ---- the end ----

  void check_end() {
    hosts_.check_end(launcher_killed_);
    for (const auto& [slot, sink] : sinks_) {
      report_.received_bytes += sink->received(0) + sink->received(1);
      if (sink->most_pending() > options_.window_bytes + held_bytes + chunk_bytes)
        problem("the launcher held " + std::to_string(sink->most_pending()) + " bytes of a stream of slot " +
                std::to_string(slot));
      const auto worker = hosts_.workers().find(slot);
      if (worker == hosts_.workers().end() || !complete_.contains(slot))
        continue;
      for (int stream : {0, 1})
        if (sink->received(stream) > worker->second->written[stream] ||
            (options_.faults.empty() && sink->received(stream) < worker->second->written[stream]))
          problem("slot " + std::to_string(slot) + " wrote " +
                  std::to_string(worker->second->written[stream]) + " bytes to stream " +
                  std::to_string(stream) + ", and " + std::to_string(sink->received(stream)) + " arrived");
    }
    if (!launcher_killed_ && !options_.elastic && report_.code == 0)
      for (const auto& [slot, worker] : hosts_.workers())
        if (!complete_.contains(slot) || worker->signalled || worker->plan.code != 0 ||
            worker->plan.cannot_start)
          problem("the job succeeded although slot " + std::to_string(slot) +
                  (worker->signalled           ? " was ended by a signal"
                   : worker->plan.cannot_start ? " could not be started"
                   : worker->plan.code != 0    ? " failed"
                                               : " has not reported its end"));
    if (options_.faults.empty() && options_.unreachable == 0 && options_.failing == 0 &&
        options_.not_starting == 0 && options_.endless == 0 && !report_.apart && report_.code != 0)
      problem("a job without faults ended with code " + std::to_string(report_.code));
  }

  void take_down() {
    hosts_.take_down();
    for (const auto& slot : far_slots_)
      caf::anon_send_exit(slot, caf::exit_reason::kill);
    caf::anon_send_exit(driver_, caf::exit_reason::kill);
    caf::anon_send_exit(registry_, caf::exit_reason::kill);
    driver_ = nullptr;
    registry_ = nullptr;
    interrupt_ = nullptr;
    world_.run_for(seconds(1));
  }

  // ---- helpers ----

  net_watcher watcher() {
    return {[](process_id, process_id, const envelope&) {},
            [this](process_id, process_id to, const envelope& message) { hosts_.received(to, message); },
            [](process_id, process_id) {}, [this](std::string text) { problem(std::move(text)); }};
  }

  void problem(std::string text) {
    if (report_.problems.size() < 20)
      report_.problems.push_back(std::move(text));
  }

  launch_options options_;
  launch_report report_;
  simulation world_;
  simulated_net net_;
  launch_hosts hosts_;
  agent_registry_actor registry_;
  caf::actor driver_;
  std::function<void(int signal)> interrupt_;
  bool reading_ = false; ///< the reader of the output comes soon
  std::uint64_t generation_ = 0;
  std::vector<std::int32_t> generation_slots_; ///< of the last generation
  bool over_ = false;
  bool launcher_killed_ = false;
  std::vector<caf::actor> far_slots_;
  std::map<std::int32_t, std::shared_ptr<launch_sink>> sinks_; ///< by slot
  std::set<std::int32_t> complete_;                            ///< slots whose output is complete
};

} // namespace

launch_options launch_options::drawn(std::uint64_t seed) {
  dice draw(seed, options_stream);
  const auto often = [&](std::uint64_t rate) { return draw.one_in(2) ? rate : 0; };
  launch_options options;
  options.seed = seed;
  options.hosts = static_cast<std::int32_t>(1 + draw.below(6));
  options.slots = static_cast<std::int32_t>(1 + draw.below(4));
  options.elastic = draw.one_in(2);
  options.most_bytes = std::size_t{1} << draw.below(18);
  options.window_bytes = std::size_t{4096} << draw.below(5);
  options.read_bytes = draw.one_in(3) ? 5'000 : 1'000'000;
  options.failing = often(8);
  options.not_starting = often(20);
  options.ignoring_sigterm = often(3);
  options.unreachable = often(6);
  for (auto count = draw.below(4); count > 0; --count) {
    planned_fault fault;
    fault.kind = static_cast<launch_fault>(draw.below(8));
    fault.at = milliseconds(draw.below(6000));
    fault.host = static_cast<std::int32_t>(draw.below(static_cast<std::uint64_t>(options.hosts)));
    fault.lasts = milliseconds(draw.below(60'000));
    options.faults.push_back(fault);
  }
  // Somebody has to end a job whose workers print for ever.
  if (draw.one_in(4)) {
    options.endless = 3;
    options.faults.push_back({launch_fault::interrupted, milliseconds(8000), 0, {}});
    options.faults.push_back({launch_fault::interrupted, milliseconds(40'000), 0, {}});
  }
  options.networks = static_cast<std::int32_t>(1 + draw.below(3));
  options.dead = often(3);
  options.blocked = often(12);
  return options;
}

launch_report run_launch(const launch_options& options) {
  return launch_world(options).run();
}

} // namespace farandole::testing
