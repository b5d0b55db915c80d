#include "actors/launch/agent_registry.hpp"

#include <signal.h>

#include <limits>
#include <utility>

#include "actors/event_loop/clock.hpp"
#include "actors/launch/agent.hpp"
#include "messages/wire/membership.hpp"
#include "messages/wire/records.hpp"

namespace farandole {

namespace {

/// The ports that a command of the placer forwards, which it gets on its standard input when it has printed them.
struct forwarding {
  forwarded_ports ports;
  slot_actor command; ///< set before its process starts

  void take(std::string_view bytes) {
    if (const auto found = ports.take(bytes))
      caf::anon_send(command, slot_input{forwarded_line(*found), {}, standard_input_stream});
  }
};

/// Keeps the last lines of a command of the placer. `forwarding` may be null.
class collected_output final : public output_sink {
public:
  collected_output(std::shared_ptr<farandole::last_lines> lines,
                   std::shared_ptr<farandole::forwarding> forwarding)
      : lines_(std::move(lines)), forwarding_(std::move(forwarding)) {}

  void write(int stream, std::string_view bytes) override {
    lines_->take(bytes);
    if (forwarding_ && stream == 1) // of ssh itself, before the output of the host
      forwarding_->take(bytes);
  }
  void end(int) override {}
  bool full(int) const override { return false; }
  void when_there_is_room(int, std::function<void()> action) override { action(); }
  std::deque<std::string> last_lines() const override { return lines_->lines(); }

private:
  std::shared_ptr<farandole::last_lines> lines_;
  std::shared_ptr<farandole::forwarding> forwarding_;
};

} // namespace

agent_registry_actor::behavior_type
agent_registry(agent_registry_actor::stateful_pointer<agent_registry_state> self,
               const agent_registry_spec& spec) {
  return self->state.begin(spec);
}

agent_registry_actor::behavior_type agent_registry_state::begin(const agent_registry_spec& spec) {
  spec_ = spec;
  table_ = agent_table(spec.rules);
  return {
      [this](const agent_request& request) { take(request); },
      [this](const agent_request_over& event) { over(event); },
      [this](const ask_for_records& request) { ask_for(request); },
      [this](const record_taken& event) {
        if (const auto link = table_.link_of(event.host))
          send(*link, encode(record_part_taken{event.number}));
      },
      [this](const hosts_wanted& event) {
        follow(table_.want(event.hosts, now(self_)));
        report_connected(event.hosts);
      },
      [this](const watch_hosts& event) {
        watcher_ = event.watcher;
        for (const auto& [host, facts] : table_.facts())
          report_connected({host});
      },
      [this](const host_test& event) { send_test(event); },
      [this](close_atom) { close(); },
      [this](const slot_ended& event) { command_ended(event); },
      [this](const slot_finished& event) { command_finished(event); },
      [this](const link_opened& event) { opened(event); },
      [this](const link_received& event) { received(event); },
      [this](const link_closed& event) { closed(event); },
      [this](const listening& opened) {
        listeners_.push_back(opened.handle);
        port_ = opened.port;
      },
      [this](due_atom) {
        timer_.reset();
        follow(table_.due(now(self_)));
      },
      [this](overdue_atom) {
        for (const auto& [number, slot] : command_slots_)
          self_->send(slot, signal_atom::value, SIGKILL);
        for (const auto& [id, handle] : links_)
          caf::anon_send(handle, cut_atom::value);
      },
  };
}

// ---- slots -----------------------------------------------------------------------------------------------------

void agent_registry_state::take(const agent_request& request) {
  const auto found = slots_.find(request.host);
  const bool is_known = found != slots_.end() && found->second.contains(request.number);
  const auto link = is_known ? table_.serving_link_of(request.host) : table_.link_of(request.host);
  if (!link) {
    self_->send(request.slot, host_lost{"host " + request.host + " has no agent any more", 1});
    return;
  }
  if (!is_known) {
    slots_[request.host].emplace(request.number, request.slot);
    count(request.host);
  }
  send(*link, request.message);
}

void agent_registry_state::over(const agent_request_over& event) {
  if (const auto loss = losses_.find(event.host);
      loss != losses_.end() && loss->second.slots.erase(event.number) > 0) {
    if (loss->second.slots.empty() && watcher_)
      self_->send(watcher_, losses_.extract(loss).mapped().event);
    return;
  }
  const auto found = slots_.find(event.host);
  if (found == slots_.end() || found->second.erase(event.number) == 0)
    return;
  count(event.host);
}

void agent_registry_state::count(const std::string& host) {
  follow(table_.running(host, slots_[host].size(), now(self_)));
}

// ---- links -----------------------------------------------------------------------------------------------------

void agent_registry_state::opened(const link_opened& event) {
  links_[event.link] = event.handle;
}

void agent_registry_state::received(const link_received& event) {
  if (const auto host = table_.host_of(event.link))
    received_from_agent(*host, event);
  else if (const auto command = user_commands_.of(event.link))
    forward_command(*command, event.message);
  else
    received_first(event);
}

/// The first message of a link tells an agent from a program of the user.
void agent_registry_state::received_first(const link_received& event) {
  if (const auto hello = decode_agent_hello(event.message))
    return follow(table_.hello(event.link, *hello, now(self_)));
  if (const auto request = decode_command_request(event.message))
    return run_command(event.link, *request);
  refuse("the launcher expects the hello of an agent, or a command for a host", event.link);
}

void agent_registry_state::received_from_agent(const std::string& host, const link_received& event) {
  if (event.message.kind() == wire::Envelope::Body::REFUSED) {
    if (const auto reason = decode_refused(event.message))
      lose_agent(event.link, reason->reason);
    return;
  }
  if (event.message.kind() == wire::Envelope::Body::HOST_LEAVING) {
    follow(table_.leaving(event.link, now(self_)));
    if (watcher_)
      self_->send(watcher_, host_leaves{host});
    return;
  }
  if (event.message.kind() == wire::Envelope::Body::RECORD_PART ||
      event.message.kind() == wire::Envelope::Body::RECORDS_SENT) {
    if (collector_)
      self_->send(collector_, host_records{host, event.message});
    return;
  }
  if (event.message.kind() == wire::Envelope::Body::ADDRESSES_TESTED) {
    if (auto report = decode_address_report(event.message); report && reach_watcher_)
      self_->send(reach_watcher_, host_report{host, std::move(*report)});
    return;
  }
  const auto number = process_of(event.message);
  if (!number)
    return;
  if (const auto program = user_commands_.program_of(host, *number)) {
    if (event.message.kind() == wire::Envelope::Body::PROCESS_FINISHED)
      user_commands_.complete(*program);
    return send(*program, event.message);
  }
  const auto slots = slots_.find(host);
  if (slots == slots_.end() || !slots->second.contains(*number))
    return acknowledge_unread(event);
  self_->send(slots->second.at(*number), event.message);
}

void agent_registry_state::ask_for(const ask_for_records& request) {
  collector_ = request.collector;
  record_hosts asked{request.number, {}};
  for (const auto& [host, facts] : table_.facts())
    if (const auto link = table_.link_of(host)) {
      send(*link, encode(record_request{request.number, request.task}));
      asked.hosts.push_back(host);
    }
  self_->send(collector_, asked);
}

void agent_registry_state::send_test(const host_test& event) {
  reach_watcher_ = event.watcher;
  if (const auto link = table_.link_of(event.host))
    send(*link, encode(event.test));
  else
    self_->send(reach_watcher_, host_unusable{event.host, "it has no agent any more", 1, true, false, {}});
}

/// Nothing reads the output of this process any more. Its agent must not wait for credit, or it could not end.
void agent_registry_state::acknowledge_unread(const link_received& event) {
  if (event.message.kind() != wire::Envelope::Body::PROCESS_OUTPUT)
    return;
  if (const auto output = decode_process_output(event.message))
    send(event.link, encode(output_consumed{output->number, output->stream,
                                            static_cast<std::uint32_t>(output->bytes.size())}));
}

void agent_registry_state::closed(const link_closed& event) {
  links_.erase(event.link);
  // Its program is gone, so nothing reads the output of the process or waits for its end.
  if (const auto command = user_commands_.end(event.link)) {
    if (const auto agent = table_.serving_link_of(command->host))
      send(*agent, encode(process_signal{command->number, SIGKILL}));
    acknowledge_all(*command);
  }
  lose_agent(event.link, event.reason);
  end_if_empty();
}

/// Acknowledges what the program of this command has not acknowledged; it reads no further output.
void agent_registry_state::acknowledge_all(const user_commands::command& command) {
  if (const auto agent = table_.serving_link_of(command.host))
    for (int stream = 0; stream < output_streams; ++stream)
      send(*agent,
           encode(output_consumed{command.number, stream, std::numeric_limits<std::uint32_t>::max()}));
}

/// The link of an agent has ended or is to end; it may be the link of another process.
void agent_registry_state::lose_agent(link_id link, const std::string& reason) {
  if (const auto host = table_.host_of(link)) {
    const auto cause = reason.empty() ? "its agent has left" : reason;
    for (const auto& [program, command] : user_commands_.lost(*host))
      refuse("host " + *host + " was lost: " + cause, program);
    if (collector_)
      self_->send(collector_, record_host_lost{*host, cause});
  }
  follow(table_.closed(link, reason, now(self_)));
}

void agent_registry_state::refuse(const std::string& reason, link_id link) {
  send(link, encode(address{}, refused{reason}));
  if (const auto found = links_.find(link); found != links_.end())
    caf::anon_send(found->second, close_atom::value);
}

void agent_registry_state::send(link_id link, const envelope& message) {
  if (const auto found = links_.find(link); found != links_.end())
    caf::anon_send(found->second, message);
}

// ---- commands of users -----------------------------------------------------------------------------------------

void agent_registry_state::run_command(link_id program, const command_request& request) {
  if (request.wire_version != wire_version)
    return refuse("the launcher has another version of Farandole: wire version " +
                      std::to_string(wire_version) + ", and this program " +
                      std::to_string(request.wire_version),
                  program);
  if (closing_)
    return refuse("the job has ended", program);
  if (table_.link_of(request.host))
    return send(program, encode(command_accepted{user_commands_.begin(program, request.host)}));
  std::string names;
  for (const auto& [host, facts] : table_.facts())
    names += (names.empty() ? "" : ", ") + host;
  refuse("host " + request.host + " has no agent in this job; " +
             (names.empty() ? "no host has one" : "these have one: " + names),
         program);
}

void agent_registry_state::forward_command(const user_commands::command& command, const envelope& message) {
  if (const auto agent = table_.serving_link_of(command.host);
      agent && user_commands::allows(command, message))
    send(*agent, message);
}

// ---- commands of the placer ------------------------------------------------------------------------------------

void agent_registry_state::start_agents(const std::vector<std::string>& hosts) {
  const auto& place = spec_.place;
  if (!place)
    return;
  const auto printed = std::make_shared<last_lines>();
  const auto number = commands_.begin(hosts, printed);
  slot_spec command;
  command.slot = number;
  std::shared_ptr<forwarding> forwards;
  if (commands_.forwards(hosts)) {
    const std::vector<forward_target> targets{{spec_.ip, port_}, spec_.rendezvous};
    command.process.arguments = place.forwarding_command(hosts.front(), targets);
    forwards = std::make_shared<forwarding>(forwarding{forwarded_ports(targets), {}});
  } else {
    command.process.arguments = place.command(hosts, port_);
  }
  command.process.environment = place.environment.empty() ? spec_.environment : place.environment;
  command.process.keeper = spec_.keeper;
  command.process.own_session = true;
  if (place.secret_variable.empty()) {
    command.process.keeps_input = true;
    command.input = spec_.secret + "\n";
  } else {
    std::erase_if(command.process.environment,
                  [&](const std::string& entry) { return entry.starts_with(place.secret_variable + "="); });
    command.process.environment.push_back(place.secret_variable + "=" + spec_.secret);
  }
  command.linger = std::chrono::milliseconds(100);
  const slot_owner_actor me = caf::actor_cast<agent_registry_actor>(self_);
  const auto spawned = spec_.slots(command, std::make_shared<collected_output>(printed, forwards), me);
  if (forwards)
    forwards->command = spawned;
  command_slots_[number] = spawned;
  self_->send(spawned, start_atom::value);
}

void agent_registry_state::command_ended(const slot_ended& event) {
  const auto hosts = commands_.hosts_of(event.slot);
  const auto code = event.exit_status.code;
  for (const auto& host : hosts)
    // The table ignores it if the host's agent is connected: then the end of the link reports the loss.
    if (!event.failure.empty() && commands_.is_latest(event.slot, host))
      follow(table_.command_failed(host, event.failure + spec_.place.remedy, code, now(self_)));
    // The last lines of the output may not have been read yet.
    else if (table_.link_of(host) && spec_.log)
      spec_.log->debug(spec_.place.name + " for host " + host + " " + event.exit_status.text());
  if (event.failure.empty())
    commands_.end(event.slot, event.exit_status);
}

void agent_registry_state::command_finished(const slot_finished& event) {
  command_slots_.erase(event.slot);
  const auto command = commands_.finish(event.slot);
  if (command.exit_status) {
    constexpr int not_found_code = 127; // of the remote shell
    const auto code = command.exit_status->code;
    auto cause = spec_.place.name + " " + command.exit_status->text();
    if (code == not_found_code)
      cause += ": the host has none of these programs: " + spec_.place.programs +
               "; install Farandole there, or name its program by FARANDOLE_REMOTE_PROGRAM";
    const bool missing = spec_.place.host_is_missing && spec_.place.host_is_missing(event.last_lines);
    for (const auto& host : command.hosts) {
      if (!commands_.is_latest(event.slot, host))
        continue;
      commands_.keep_lines(host, event.last_lines);
      if (code == launcher_unreachable_code && !command.forwards && forward_ports(host, event.last_lines))
        continue;
      follow(missing ? table_.host_missing(host, cause, code, now(self_))
                     : table_.command_failed(host, cause, code, now(self_)));
    }
  }
  end_if_empty();
}

/// The agent of this host could not reach the launcher. Starts it again, so that it reaches the launcher through the
/// connection of the command, if the placer can do that and the host still waits for its agent.
bool agent_registry_state::forward_ports(const std::string& host, const std::deque<std::string>& printed) {
  if (!spec_.place.forwarding_command || !table_.is_starting(host))
    return false;
  if (spec_.log)
    spec_.log->info("host " + host +
                    " cannot reach the launcher; its agent is started again, with forwarded ports" +
                    last_line_about(host));
  commands_.forward_ports(host, printed);
  start_agents({host});
  return true;
}

/// Ends the command that is to start the agent of this host, once no other host needs it.
void agent_registry_state::stop_command(const std::string& host) {
  for (const auto number : commands_.release(host))
    self_->send(command_slots_.at(number), signal_atom::value, SIGTERM);
}

std::string agent_registry_state::last_line_about(const std::string& host) const {
  const auto lines = commands_.printed_by(host);
  return lines.empty() ? std::string() : ": " + lines.back();
}

// ---- decisions of the table ------------------------------------------------------------------------------------

void agent_registry_state::follow(const agent_table::step& step) {
  if (spec_.place.takes_all_hosts && !step.starts.empty())
    start_agents(step.starts);
  else
    for (const auto& host : step.starts)
      start_agents({host});
  for (const auto& [link, reason] : step.refusals) {
    if (spec_.log)
      spec_.log->warning("refusing an agent: " + reason);
    refuse(reason, link);
  }
  for (const auto& [link, host] : step.connected) {
    send(link, agent_accepted_message());
    commands_.connected(host);
    if (spec_.agent_connected)
      spec_.agent_connected(host);
    if (watcher_)
      self_->send(watcher_, host_connected{host, table_.facts().at(host)});
  }
  for (const auto link : step.dismissals)
    send(link, leave_host_message());
  for (const auto& [host, cause] : step.postponed)
    postpone(host, cause);
  for (const auto& failure : step.failures)
    report(failure);
  for (const auto& host : step.stops)
    stop_command(host);
  if (step.call_next && (!timer_ || *step.call_next < *timer_)) {
    timer_ = step.call_next;
    self_->delayed_send(self_, *step.call_next - now(self_), due_atom::value);
  }
}

/// A host that is wanted again may still have its agent, so that no other event reports it.
void agent_registry_state::report_connected(const std::vector<std::string>& hosts) {
  for (const auto& host : hosts)
    if (watcher_ && table_.link_of(host))
      self_->send(watcher_, host_connected{host, table_.facts().at(host)});
}

void agent_registry_state::postpone(const std::string& host, const std::string& cause) {
  if (spec_.log)
    spec_.log->warning("host " + host + " does not exist yet, and is tried again until " +
                       spec_.rules.start_timeout_setting + " has passed: " + cause + last_line_about(host));
}

void agent_registry_state::report(const agent_table::failure& failure) {
  const auto cause =
      "host " + failure.host + (failure.was_connected ? " was lost: " : " cannot be used: ") + failure.cause;
  stop_command(failure.host);
  loss lost{{failure.host, failure.cause, failure.code, failure.was_connected, failure.timed_out,
             commands_.printed_by(failure.host)},
            {}};
  if (const auto slots = slots_.extract(failure.host))
    for (const auto& [number, far] : slots.mapped()) {
      lost.slots.insert(number);
      self_->send(far, host_lost{cause, failure.code});
    }
  // The watcher must learn of the ends of the slots first, because to a scheduler the workers of a host that is gone are
  // not failures.
  if (!lost.slots.empty())
    losses_[failure.host] = std::move(lost);
  else if (watcher_)
    self_->send(watcher_, lost.event);
}

// ---- the end ---------------------------------------------------------------------------------------------------

void agent_registry_state::close() {
  if (std::exchange(closing_, true))
    return;
  watcher_ = nullptr;
  reach_watcher_ = nullptr;
  collector_ = nullptr;
  for (const auto& [program, command] : user_commands_.end_all()) {
    acknowledge_all(command);
    refuse("the job has ended", program);
  }
  follow(table_.end(now(self_)));
  for (const auto& listener : listeners_)
    caf::anon_send(listener, close_atom::value);
  self_->delayed_send(self_, spec_.leave_timeout, overdue_atom::value);
  end_if_empty();
}

void agent_registry_state::end_if_empty() {
  if (closing_ && links_.empty() && commands_.empty())
    self_->quit();
}

} // namespace farandole
