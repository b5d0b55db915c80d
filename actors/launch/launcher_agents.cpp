// The launcher and the agents of other hosts: it listens for them, waits until they are connected, and lets them test their
// addresses.
#include <algorithm>
#include <cassert>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "actors/launch/host_gatherer.hpp"
#include "actors/launch/launcher.hpp"
#include "actors/launch/launcher_parts.hpp"
#include "actors/launch/reach_checker.hpp"

namespace farandole {

namespace {

/// For connections between hosts, also with a short start timeout.
constexpr std::chrono::milliseconds min_dial_timeout{1000};

} // namespace

error launcher::start_agents(parts& made, const launcher_options& options) {
  auto links = link_settings::of(options.values);
  links.credentials = std::make_shared<const tls_credentials>(options.secret);
  links.log = &made.log;
  agent_registry_spec spec;
  spec.rules.start_timeout = options.values.duration(setting::start_timeout);
  spec.rules.start_timeout_setting = options.values.cited(setting::start_timeout);
  spec.rules.retries = options.members.elastic;
  spec.rules.most_others = options.agents.most_others;
  spec.rules.version = options.agents.version;
  spec.secret = options.secret;
  spec.ip = options.agents.bind_ips.front();
  spec.rendezvous = {options.remote_ip.empty() ? options.bind_ips.front() : options.remote_ip, made.port};
  spec.environment = own_environment();
  spec.keeper = &made.keeper;
  spec.log = &made.log;
  spec.place = options.agents.place;
  spec.slots = real_slots(made.system.get());
  if (made.caller)
    spec.agent_connected = [caller = made.caller.get()](const std::string& host) {
      caller->agent_connected(host);
    };
  if (spec.place.takes_all_hosts)
    spec.rules.starts_at_once = most_slots; // they need only one command
  made.agents = made.system.get().spawn(agent_registry, spec);
  auto opened = listen(made.system.get(), options.agents.bind_ips, options.agents.port,
                       caf::actor_cast<caf::actor>(made.agents), links);
  if (!opened)
    return opened.error();
  for (const auto& listener : *opened)
    caf::anon_send(made.agents, listener);
  made.agent_port = opened->front().port;
  made.agent_links = links;
  made.workers = options.agents.workers;
  made.placer_name = options.agents.place.name;
  return {};
}

std::uint16_t launcher::agent_port() const {
  return parts_->agent_port;
}

void launcher::ask_for_agents(const std::string& addresses, const std::string& text) {
  if (parts_->caller)
    parts_->caller->waits_for_agents(addresses, text);
  else
    parts_->writer.write(STDERR_FILENO, text + "\n");
}

std::optional<agent_facts> launcher::gather_agents(const std::vector<std::string>& hosts, std::size_t count,
                                                   int& exit_code) {
  assert(parts_->agents);
  agent_facts facts; // written only on the loop before `finished`
  host_gatherer_spec spec;
  spec.hosts = hosts;
  spec.count = hosts.empty() ? count : hosts.size();
  spec.placer = parts_->placer_name;
  spec.agents = parts_->agents;
  spec.say = [this](const std::string& line) { parts_->writer.write(STDERR_FILENO, line + "\n"); };
  spec.timeout = parts_->values.duration(setting::start_timeout);
  spec.timeout_setting = parts_->values.cited(setting::start_timeout);
  spec.timed_out = parts_->timeout_reporter();
  spec.finished = [&facts, done = parts_->watch.finished()](int code, agent_facts found) {
    facts = std::move(found);
    done(code);
  };
  const auto gatherer = parts_->system.get().spawn(host_gatherer, spec);
  caf::anon_send(gatherer, start_atom::value);
  exit_code = parts_->watch.wait_for(gatherer);
  return exit_code == 0 ? std::optional(std::move(facts)) : std::nullopt;
}

std::optional<reach_results> launcher::test_hosts(const std::vector<reach_check::tested_host>& hosts,
                                                  const std::string& own_host, int& exit_code) {
  assert(parts_->agents);
  reach_results results; // written only on the loop before `finished`
  reach_checker_spec spec;
  spec.hosts = hosts;
  spec.own_host = own_host;
  const auto longest = parts_->values.duration(setting::start_timeout);
  spec.timeout = std::max(std::chrono::ceil<std::chrono::milliseconds>(longest) / 3, min_dial_timeout);
  spec.links = parts_->agent_links;
  spec.agents = parts_->agents;
  spec.say = [this](const std::string& line) { parts_->writer.write(STDERR_FILENO, line + "\n"); };
  spec.finished = [&results, done = parts_->watch.finished()](int code, reach_results found) {
    results = std::move(found);
    done(code);
  };
  const auto checker = parts_->system.get().spawn(reach_checker, spec);
  caf::anon_send(checker, start_atom::value);
  exit_code = parts_->watch.wait_for(checker);
  return exit_code == 0 ? std::optional(std::move(results)) : std::nullopt;
}

} // namespace farandole
