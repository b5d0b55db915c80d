#include "tests/world/launch_job.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <csignal>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "actors/event_loop/link_messages.hpp"
#include "actors/launch/agent_actor.hpp"
#include "actors/launch/agent_registry.hpp"
#include "actors/launch/elastic_driver.hpp"
#include "actors/launch/far_slot.hpp"
#include "actors/launch/hands.hpp"
#include "actors/launch/host_driver.hpp"
#include "actors/launch/host_gatherer.hpp"
#include "tests/world/dice.hpp"
#include "tests/world/launch_sink.hpp"
#include "tests/world/launch_worker.hpp"
#include "tests/world/simulated_net.hpp"
#include "tests/world/simulation.hpp"

namespace farandole::testing {

namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint64_t options_stream = 500, job_stream = 501;
constexpr milliseconds reader_interval{10};
constexpr std::size_t held_bytes = std::size_t{64}
                                   << 10; ///< of a stream, before the launcher's output is full
constexpr seconds link_timeout{30};

/// The agent of a host, with the command that started it.
struct started_agent {
  process_id process = 0;
  std::int32_t host = 0;
  agent_actor actor;
  bool alive = true;
  std::set<std::int32_t> ran;         ///< slots whose processes it has started
  std::optional<envelope> last_start; ///< the last request to start a process
  std::vector<std::shared_ptr<worker_process>> workers;
  std::vector<caf::actor> slots;
  std::function<void(int code)> command_ends; ///< the command that started it
};

class launch_world {
public:
  explicit launch_world(const launch_options& options)
      : options_(options), world_(options.seed), draw_(options.seed, job_stream),
        net_(world_, net_options{options.seed, 50, 200, 50, 5000, {}}, watcher()) {
    world_.all_processes().tell_apart();
    world_.step_limit(500'000'000);
  }

  launch_report run() {
    const auto begin = world_.now();
    start_launcher();
    for (const auto& fault : options_.faults)
      later(no_process, fault.at, [this, fault] { happen(fault); });
    const auto longest = minutes(20);
    while (!over_ && world_.now() - begin < longest)
      if (!world_.run_for(milliseconds(100)))
        problem("the job is in a livelock");
    if (!over_)
      problem("the job has not ended after 20 minutes");
    end_launcher();
    // No agent, command and worker may be left: the launcher gives agents 10 s, an agent gives its workers 5 s, and a
    // link that is cut off ends after the link timeout.
    world_.run_for(seconds(10) + seconds(5) + 2 * link_timeout);
    check_end();
    report_.trace = world_.trace_hash();
    report_.agents = agents_.size();
    take_down();
    return std::move(report_);
  }

private:
  std::string name_of(std::int32_t host) const { return "host" + std::to_string(host); }

  // ---- the launcher ----

  void start_launcher() {
    const running_process scope(world_.all_processes(), launcher_process);
    agent_registry_spec spec;
    spec.rules.start_timeout = seconds(30);
    spec.rules.retries = options_.elastic;
    spec.rules.version = "1";
    spec.place = {"ssh", "", "farandole", [](const std::string& host, std::uint16_t) {
                    return std::vector<std::string>{"start", host};
                  }};
    spec.slots = [this](const slot_spec& command, const std::shared_ptr<output_sink>& sink,
                        const slot_owner_actor& owner) { return start_command(command, sink, owner); };
    registry_ = world_.system().spawn(agent_registry, spec);
    auto opened = listen(world_.system(), simulated_net::address_of(launcher_process), 0,
                         caf::actor_cast<caf::actor>(registry_), links_of(launcher_process));
    port_ = opened->port;
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
          far_slot, far_slot_spec{spec, options_.window_bytes, sink, registry_}, driver);
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
      spec.hosts.push_back(name_of(host));
    spec.count = spec.hosts.size();
    spec.placer = "ssh";
    spec.agents = registry_;
    spec.say = [this](const std::string& line) { report_.user_messages.push_back(line); };
    spec.finished = [this](int code, const std::map<std::string, agent_hello>& facts) {
      if (code != 0)
        return finish(code);
      if (static_cast<std::int32_t>(facts.size()) != options_.hosts)
        problem("workers start although an agent is missing");
      start_host_driver();
    };
    const auto gatherer = world_.system().spawn(host_gatherer, spec);
    interrupt_ = [gatherer](int signal) { caf::anon_send(gatherer, interrupt_atom::value, signal); };
    caf::anon_send(gatherer, start_atom::value);
  }

  void start_host_driver() {
    const running_process scope(world_.all_processes(), launcher_process);
    host_driver_spec spec;
    spec.hands = make_hands();
    for (std::int32_t slot = 0; slot < options_.hosts * options_.slots; ++slot)
      spec.slots.push_back(spec_of(slot, name_of(slot / options_.slots)));
    spec.times.grace = seconds(2);
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
      spec.hosts.hosts.push_back({name_of(host), options_.slots});
      spec.hosts.remote.insert(name_of(host));
    }
    spec.times.grace = seconds(2);
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
    later(no_process, milliseconds(50), [this] {
      std::vector<std::int32_t> slots;
      for (const auto& [slot, worker] : workers_)
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
    later(launcher_process, reader_interval, [this] {
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

  // ---- commands and agents ----

  slot_actor start_command(const slot_spec& command, const std::shared_ptr<output_sink>& sink,
                           const slot_owner_actor& owner) {
    const auto number = command.slot;
    const auto host = std::stoi(command.process.arguments.at(1).substr(4));
    ++running_commands_;
    const bool fails = draw_.one_in(options_.unreachable);
    const auto end = [this, number, owner, ended = std::make_shared<bool>(false)](int code) {
      if (std::exchange(*ended, true))
        return;
      --running_commands_;
      later(launcher_process, milliseconds(1 + draw_.below(20)), [number, owner, code] {
        caf::anon_send(owner, slot_ended{number, {code, 0}, {}});
        caf::anon_send(owner, slot_finished{number, {}});
      });
    };
    const auto wait = milliseconds(20 + draw_.below(300));
    auto spawned = world_.system().spawn([=, this](caf::event_based_actor* self) {
      auto agent = std::make_shared<process_id>(0); // 0: it was not started
      return caf::behavior{
          [=](start_atom) { self->delayed_send(self, wait, tick_atom::value); },
          [=, this](tick_atom) {
            if (fails) {
              sink->write(1, "connect: connection refused\n");
              constexpr int ssh_failed = 255;
              end(ssh_failed);
              return;
            }
            *agent = start_agent(host, end);
          },
          [=, this](signal_atom, int) {
            // Its standard input ends, which ends the agent.
            if (*agent != 0)
              end_input(*agent);
            end(255);
          },
      };
    });
    commands_.push_back(spawned);
    return caf::actor_cast<slot_actor>(spawned);
  }

  process_id start_agent(std::int32_t host, std::function<void(int)> command_ends) {
    const auto process = static_cast<process_id>(agents_.size() + 1);
    const running_process scope(world_.all_processes(), process);
    auto& made = agents_[process];
    made.process = process;
    made.host = host;
    made.command_ends = std::move(command_ends);
    agent_spec spec;
    spec.launcher = {{simulated_net::address_of(launcher_process), port_}};
    spec.hello.version = "1";
    spec.hello.program = "farandole";
    spec.hello.host = name_of(host);
    spec.hello.machine = name_of(host);
    spec.hello.cores = options_.slots;
    spec.hello.slots = options_.slots;
    spec.links = links_of(process);
    spec.slots = [this, process](const slot_spec& slot, const std::shared_ptr<output_sink>& sink,
                                 const slot_owner_actor& owner) {
      return start_worker(agents_.at(process), slot, sink, owner);
    };
    spec.own_address_towards = [process](const std::string&) { return simulated_net::address_of(process); };
    spec.finished = [this, process](const std::string& reason) {
      agent_finished(agents_.at(process), reason);
    };
    made.actor = world_.system().spawn(agent, spec);
    caf::anon_send(made.actor, start_atom::value);
    return process;
  }

  slot_actor start_worker(started_agent& agent, const slot_spec& spec,
                          const std::shared_ptr<output_sink>& sink, const slot_owner_actor& owner) {
    if (!agent.ran.insert(spec.slot).second)
      problem("slot " + std::to_string(spec.slot) + " was started twice on " + name_of(agent.host));
    auto process = std::make_shared<worker_process>();
    process->slot = spec.slot;
    process->plan.lasts = milliseconds(draw_.below(static_cast<std::uint64_t>(options_.lasts.count())));
    process->plan.bytes = draw_.below(options_.most_bytes + 1);
    process->plan.prints_for_ever = draw_.one_in(options_.endless);
    process->plan.ignores_sigterm = draw_.one_in(options_.ignoring_sigterm);
    process->plan.cannot_start = draw_.one_in(options_.not_starting);
    process->plan.code = draw_.one_in(options_.failing) ? 3 : 0;
    report_.workers += !process->plan.cannot_start;
    agent.workers.push_back(process);
    workers_[spec.slot] = process;
    agent.slots.push_back(simulated_slot(world_.system(), spec, process, sink, owner, options_.seed));
    return caf::actor_cast<slot_actor>(agent.slots.back());
  }

  void agent_finished(started_agent& agent, const std::string& reason) {
    for (const auto& worker : agent.workers)
      if (worker->runs)
        problem("the agent of " + name_of(agent.host) + " has ended and left worker " +
                std::to_string(worker->slot));
    gone(agent, reason.empty() ? 0 : 1);
  }

  void gone(started_agent& agent, int code) {
    agent.alive = false;
    net_.end_process(agent.process);
    agent.command_ends(code);
  }

  void end_input(process_id agent) {
    auto& entry = agents_.at(agent);
    later(agent, milliseconds(1 + draw_.below(50)), [&entry] {
      if (entry.alive)
        caf::anon_send(entry.actor, close_atom::value);
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
    for (auto& [process, agent] : agents_)
      if (agent.alive && agent.host == fault.host)
        return strike(fault, agent);
    --report_.faults;
  }

  void strike(const planned_fault& fault, started_agent& agent) {
    switch (fault.kind) {
    case launch_fault::agent_killed:
      kill(agent);
      break;
    case launch_fault::link_broken:
      net_.break_links(launcher_process, agent.process, milliseconds(500));
      break;
    case launch_fault::cut_off:
      cut_off(agent.process, fault.lasts);
      break;
    case launch_fault::command_ended:
      end_input(agent.process);
      agent.command_ends(255);
      break;
    case launch_fault::start_repeated:
      if (agent.last_start)
        caf::anon_send(agent.actor, link_received{1, *agent.last_start});
      break;
    case launch_fault::host_leaves:
      caf::anon_send(agent.actor, interrupt_atom::value, SIGTERM);
      break;
    default:
      break;
    }
  }

  void kill(started_agent& agent) {
    for (const auto& worker : agent.workers)
      worker->runs = false;
    for (const auto& slot : agent.slots)
      caf::anon_send_exit(slot, caf::exit_reason::kill);
    caf::anon_send_exit(agent.actor, caf::exit_reason::kill);
    gone(agent, 128 + SIGKILL);
  }

  /// TCP keepalive ends links over which nothing passes for the link timeout.
  void cut_off(process_id agent, milliseconds lasts) {
    const auto set = [this, agent](bool blocked) {
      net_.block(launcher_process, agent, blocked);
      net_.block(agent, launcher_process, blocked);
    };
    set(true);
    if (lasts >= link_timeout)
      later(no_process, link_timeout,
            [this, agent] { net_.break_links(launcher_process, agent, milliseconds(2000)); });
    later(no_process, lasts, [set] { set(false); });
  }

  void kill_launcher() {
    launcher_killed_ = true;
    over_ = true;
    net_.end_process(launcher_process);
    caf::anon_send_exit(driver_, caf::exit_reason::kill);
    caf::anon_send_exit(registry_, caf::exit_reason::kill);
    // The commands of the placer end with the launcher, whose end of their input is closed.
    for (auto& [process, agent] : agents_)
      if (agent.alive)
        end_input(process);
  }

  // ---- the end ----

  void check_end() {
    for (const auto& [process, agent] : agents_) {
      if (agent.alive)
        problem("the agent of " + name_of(agent.host) + " is left");
      for (const auto& worker : agent.workers)
        if (worker->runs)
          problem("worker " + std::to_string(worker->slot) + " is left on " + name_of(agent.host));
    }
    if (running_commands_ != 0 && !launcher_killed_)
      problem(std::to_string(running_commands_) + " commands of the placer are left");
    for (const auto& [slot, sink] : sinks_) {
      report_.received_bytes += sink->received(0) + sink->received(1);
      if (sink->most_pending() > options_.window_bytes + held_bytes + chunk_bytes)
        problem("the launcher held " + std::to_string(sink->most_pending()) + " bytes of a stream of slot " +
                std::to_string(slot));
      const auto worker = workers_.find(slot);
      if (worker == workers_.end() || !complete_.contains(slot))
        continue;
      for (int stream : {0, 1})
        if (sink->received(stream) > worker->second->written[stream] ||
            (options_.faults.empty() && sink->received(stream) < worker->second->written[stream]))
          problem("slot " + std::to_string(slot) + " wrote " +
                  std::to_string(worker->second->written[stream]) + " bytes to stream " +
                  std::to_string(stream) + ", and " + std::to_string(sink->received(stream)) + " arrived");
    }
    if (!launcher_killed_ && !options_.elastic && report_.code == 0)
      for (const auto& [slot, worker] : workers_)
        if (!complete_.contains(slot) || worker->signalled || worker->plan.code != 0 ||
            worker->plan.cannot_start)
          problem("the job succeeded although slot " + std::to_string(slot) +
                  (worker->signalled           ? " was ended by a signal"
                   : worker->plan.cannot_start ? " could not be started"
                   : worker->plan.code != 0    ? " failed"
                                               : " has not reported its end"));
    if (options_.faults.empty() && options_.unreachable == 0 && options_.failing == 0 &&
        options_.not_starting == 0 && options_.endless == 0 && report_.code != 0)
      problem("a job without faults ended with code " + std::to_string(report_.code));
  }

  void take_down() {
    for (auto& [process, agent] : agents_) {
      caf::anon_send_exit(agent.actor, caf::exit_reason::kill);
      for (const auto& slot : agent.slots)
        caf::anon_send_exit(slot, caf::exit_reason::kill);
      agent.command_ends = nullptr;
    }
    for (const auto* actors : {&commands_, &far_slots_})
      for (const auto& actor : *actors)
        caf::anon_send_exit(actor, caf::exit_reason::kill);
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
            [this](process_id, process_id to, const envelope& message) {
              if (message.kind() == wire::Envelope::Body::START_PROCESS)
                agents_.at(to).last_start = message;
            },
            [](process_id, process_id) {}, [this](std::string text) { problem(std::move(text)); }};
  }

  link_settings links_of(process_id process) {
    link_settings settings;
    settings.simulated = net_.links_of(process);
    return settings;
  }

  void later(process_id process, std::chrono::nanoseconds wait, std::function<void()> action) {
    const running_process scope(world_.all_processes(), process);
    world_.system().spawn([wait, action = std::move(action)](caf::event_based_actor* self) {
      self->delayed_send(self, wait, tick_atom::value);
      return caf::behavior{[=](tick_atom) {
        action();
        self->quit();
      }};
    });
  }

  void problem(std::string text) {
    if (report_.problems.size() < 20)
      report_.problems.push_back(std::move(text));
  }

  launch_options options_;
  launch_report report_;
  simulation world_;
  dice draw_;
  simulated_net net_;
  agent_registry_actor registry_;
  caf::actor driver_;
  std::uint16_t port_ = 0;
  std::function<void(int signal)> interrupt_;
  bool reading_ = false; ///< the reader of the output comes soon
  std::uint64_t generation_ = 0;
  std::vector<std::int32_t> generation_slots_; ///< of the last generation
  bool over_ = false;
  bool launcher_killed_ = false;
  std::map<process_id, started_agent> agents_;
  std::vector<caf::actor> commands_;
  std::vector<caf::actor> far_slots_;
  std::size_t running_commands_ = 0;
  std::map<std::int32_t, std::shared_ptr<launch_sink>> sinks_;      ///< by slot
  std::map<std::int32_t, std::shared_ptr<worker_process>> workers_; ///< by slot
  std::set<std::int32_t> complete_;                                 ///< slots whose output is complete
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
  return options;
}

launch_report run_launch(const launch_options& options) {
  return launch_world(options).run();
}

} // namespace farandole::testing
