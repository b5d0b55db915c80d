#include "tests/world/launch_hosts.hpp"

#include <csignal>
#include <utility>

#include "actors/event_loop/link_messages.hpp"
#include "actors/launch/agent_registry.hpp"
#include "tests/world/later.hpp"

namespace farandole::testing {

namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t hosts_stream = 501;
constexpr std::uint64_t networks_stream = 502;

} // namespace

/// The links of a host, whose connections to some addresses of other hosts fail, at once or after a timeout.
class launch_hosts::host_links final : public link_maker {
public:
  host_links(launch_hosts& hosts, process_id process, std::int32_t host)
      : hosts_(hosts), process_(process), host_(host), links_(hosts.net_.links_of(process)) {}

  expected<listening> listen(const std::string& bind_ip, std::uint16_t port, caf::actor owner) override {
    return links_->listen(bind_ip, port, std::move(owner));
  }
  void dial(const std::string& ip, std::uint16_t port, caf::actor owner, link_id id) override {
    for (std::int32_t host = 0; host < hosts_.options_.hosts; ++host)
      for (std::int32_t network = 0; network < hosts_.options_.networks; ++network)
        if (address_of(host, network) == ip && !hosts_.reaches(host_, host, network))
          return fail(owner, id, milliseconds(hosts_.draw_.one_in(2) ? 10'000 : 5));
    links_->dial(ip, port, std::move(owner), id);
  }

private:
  void fail(const caf::actor& owner, link_id id, milliseconds wait) {
    later(hosts_.world_, process_, wait, [owner, id] {
      caf::anon_send(owner, link_closed{id, "cannot connect: No route to host"});
    });
  }

  launch_hosts& hosts_;
  process_id process_;
  std::int32_t host_;
  std::shared_ptr<link_maker> links_;
};

launch_hosts::launch_hosts(const launch_options& options, simulation& world, simulated_net& net,
                           std::function<void(std::string)> problem)
    : options_(options), world_(world), net_(net), problem_(std::move(problem)),
      draw_(options.seed, hosts_stream) {}

std::string launch_hosts::address_of(std::int32_t host, std::int32_t network) {
  return "10." + std::to_string(100 + network) + "." + std::to_string(host / 256) + "." +
         std::to_string(host % 256);
}

bool launch_hosts::reaches(std::int32_t from, std::int32_t host, std::int32_t network) const {
  const auto address = static_cast<std::uint64_t>(host * options_.networks + network);
  const auto draws = [&](std::uint64_t number, std::uint64_t rate) {
    return dice(options_.seed, networks_stream, number).one_in(rate);
  };
  const auto pair = address * static_cast<std::uint64_t>(options_.hosts) + static_cast<std::uint64_t>(from);
  return !draws(2 * address, options_.dead) && !draws(2 * pair + 1, options_.blocked);
}

// ---- commands and agents -------------------------------------------------------------------------

slot_actor launch_hosts::start_command(const slot_spec& command, const std::shared_ptr<output_sink>& sink,
                                       const slot_owner_actor& owner) {
  const auto number = command.slot;
  const auto host = std::stoi(command.process.arguments.at(1).substr(4));
  ++running_commands_;
  const bool fails = draw_.one_in(options_.unreachable);
  const auto end = [this, number, owner, ended = std::make_shared<bool>(false)](int code) {
    if (std::exchange(*ended, true))
      return;
    --running_commands_;
    later(world_, launcher_process, milliseconds(1 + draw_.below(20)), [number, owner, code] {
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

process_id launch_hosts::start_agent(std::int32_t host, std::function<void(int)> command_ends) {
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
  if (options_.networks > 1)
    for (std::int32_t network = 0; network < options_.networks; ++network)
      spec.hello.addresses.push_back({"net" + std::to_string(network), address_of(host, network)});
  spec.links.simulated = std::make_shared<host_links>(*this, process, host);
  spec.slots = [this, process](const slot_spec& slot, const std::shared_ptr<output_sink>& sink,
                               const slot_owner_actor& owner) {
    return start_worker(agents_.at(process), slot, sink, owner);
  };
  spec.own_address_towards = [process](const std::string&) { return simulated_net::address_of(process); };
  spec.finished = [this, process](const std::string& reason) { agent_finished(agents_.at(process), reason); };
  made.actor = world_.system().spawn(agent, spec);
  caf::anon_send(made.actor, start_atom::value);
  return process;
}

slot_actor launch_hosts::start_worker(started_agent& agent, const slot_spec& spec,
                                      const std::shared_ptr<output_sink>& sink,
                                      const slot_owner_actor& owner) {
  if (!agent.ran.insert(spec.slot).second)
    problem_("slot " + std::to_string(spec.slot) + " was started twice on " + name_of(agent.host));
  auto process = std::make_shared<worker_process>();
  process->slot = spec.slot;
  process->plan.lasts = milliseconds(draw_.below(static_cast<std::uint64_t>(options_.lasts.count())));
  process->plan.bytes = draw_.below(options_.most_bytes + 1);
  process->plan.prints_for_ever = draw_.one_in(options_.endless);
  process->plan.ignores_sigterm = draw_.one_in(options_.ignoring_sigterm);
  process->plan.cannot_start = draw_.one_in(options_.not_starting);
  process->plan.code = draw_.one_in(options_.failing) ? 3 : 0;
  workers_run_ += !process->plan.cannot_start;
  agent.workers.push_back(process);
  workers_[spec.slot] = process;
  agent.slots.push_back(simulated_slot(world_.system(), spec, process, sink, owner, options_.seed));
  return caf::actor_cast<slot_actor>(agent.slots.back());
}

void launch_hosts::agent_finished(started_agent& agent, const std::string& reason) {
  for (const auto& worker : agent.workers)
    if (worker->runs)
      problem_("the agent of " + name_of(agent.host) + " has ended and left worker " +
               std::to_string(worker->slot));
  gone(agent, reason.empty() ? 0 : 1);
}

void launch_hosts::gone(started_agent& agent, int code) {
  agent.alive = false;
  net_.end_process(agent.process);
  agent.command_ends(code);
}

void launch_hosts::end_input(process_id agent) {
  auto& entry = agents_.at(agent);
  later(world_, agent, milliseconds(1 + draw_.below(50)), [&entry] {
    if (entry.alive)
      caf::anon_send(entry.actor, close_atom::value);
  });
}

void launch_hosts::received(process_id agent, const envelope& message) {
  if (message.kind() == wire::Envelope::Body::START_PROCESS)
    agents_.at(agent).last_start = message;
}

// ---- faults --------------------------------------------------------------------------------------

bool launch_hosts::strike(const planned_fault& fault) {
  for (auto& [process, agent] : agents_)
    if (agent.alive && agent.host == fault.host) {
      strike(fault, agent);
      return true;
    }
  return false;
}

void launch_hosts::strike(const planned_fault& fault, started_agent& agent) {
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

void launch_hosts::kill(started_agent& agent) {
  for (const auto& worker : agent.workers)
    worker->runs = false;
  for (const auto& slot : agent.slots)
    caf::anon_send_exit(slot, caf::exit_reason::kill);
  caf::anon_send_exit(agent.actor, caf::exit_reason::kill);
  gone(agent, 128 + SIGKILL);
}

void launch_hosts::cut_off(process_id agent, milliseconds lasts) {
  const auto set = [this, agent](bool blocked) {
    net_.block(launcher_process, agent, blocked);
    net_.block(agent, launcher_process, blocked);
  };
  set(true);
  if (lasts >= link_timeout)
    later(world_, no_process, link_timeout,
          [this, agent] { net_.break_links(launcher_process, agent, milliseconds(2000)); });
  later(world_, no_process, lasts, [set] { set(false); });
}

void launch_hosts::lose_launcher() {
  for (auto& [process, agent] : agents_)
    if (agent.alive)
      end_input(process);
}

// ---- the end -------------------------------------------------------------------------------------

void launch_hosts::check_end(bool launcher_killed) const {
  for (const auto& [process, agent] : agents_) {
    if (agent.alive)
      problem_("the agent of " + name_of(agent.host) + " is left");
    for (const auto& worker : agent.workers)
      if (worker->runs)
        problem_("worker " + std::to_string(worker->slot) + " is left on " + name_of(agent.host));
  }
  if (running_commands_ != 0 && !launcher_killed)
    problem_(std::to_string(running_commands_) + " commands of the placer are left");
}

void launch_hosts::take_down() {
  for (auto& [process, agent] : agents_) {
    caf::anon_send_exit(agent.actor, caf::exit_reason::kill);
    for (const auto& slot : agent.slots)
      caf::anon_send_exit(slot, caf::exit_reason::kill);
    agent.command_ends = nullptr;
  }
  for (const auto& command : commands_)
    caf::anon_send_exit(command, caf::exit_reason::kill);
}

} // namespace farandole::testing
