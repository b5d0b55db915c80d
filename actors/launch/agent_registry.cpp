#include "actors/launch/agent_registry.hpp"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "actors/event_loop/clock.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

namespace {

/// Keeps the last lines of a command of the placer.
class collected_output final : public output_sink {
public:
  explicit collected_output(std::shared_ptr<farandole::last_lines> lines) : lines_(std::move(lines)) {}

  void write(int, std::string_view bytes) override { lines_->take(bytes); }
  void end(int) override {}
  bool full(int) const override { return false; }
  void when_there_is_room(int, std::function<void()> action) override { action(); }
  std::deque<std::string> last_lines() const override { return lines_->lines(); }

private:
  std::shared_ptr<farandole::last_lines> lines_;
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
      [this](const hosts_wanted& event) {
        follow(table_.want(event.hosts, now(self_)));
        report_connected(event.hosts);
      },
      [this](const watch_hosts& event) {
        watcher_ = event.watcher;
        for (const auto& [host, facts] : table_.facts())
          report_connected({host});
      },
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
        for (const auto& [number, running] : commands_)
          self_->send(running.slot, signal_atom::value, SIGKILL);
        for (const auto& [id, handle] : links_)
          caf::anon_send(handle, cut_atom::value);
      },
  };
}

// ---- slots -----------------------------------------------------------------------------------------------------

void agent_registry_state::take(const agent_request& request) {
  const auto link = table_.link_of(request.host);
  if (!link) {
    self_->send(request.slot, host_lost{"host " + request.host + " has no agent any more", 1});
    return;
  }
  const bool is_new = slots_[request.host].try_emplace(request.number, request.slot).second;
  if (is_new)
    count(request.host);
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
  const auto host = table_.host_of(event.link);
  if (!host) {
    if (auto hello = decode_agent_hello(event.message))
      return follow(table_.hello(event.link, *hello, now(self_)));
    send(event.link, encode(address{}, refused{"the launcher expects the hello of an agent"}));
    if (const auto found = links_.find(event.link); found != links_.end())
      caf::anon_send(found->second, close_atom::value);
    return;
  }
  if (event.message.kind() == wire::Envelope::Body::REFUSED) {
    if (const auto reason = decode_refused(event.message))
      follow(table_.closed(event.link, reason->reason, now(self_)));
    return;
  }
  if (event.message.kind() == wire::Envelope::Body::HOST_LEAVING) {
    follow(table_.leaving(event.link, now(self_)));
    if (watcher_)
      self_->send(watcher_, host_leaves{*host});
    return;
  }
  const auto number = process_of(event.message);
  const auto slots = slots_.find(*host);
  if (!number || slots == slots_.end())
    return;
  if (const auto found = slots->second.find(*number); found != slots->second.end())
    self_->send(found->second, event.message);
}

void agent_registry_state::closed(const link_closed& event) {
  links_.erase(event.link);
  follow(table_.closed(event.link, event.reason, now(self_)));
  end_if_empty();
}

void agent_registry_state::send(link_id link, const envelope& message) {
  if (const auto found = links_.find(link); found != links_.end())
    caf::anon_send(found->second, message);
}

// ---- commands of the placer ------------------------------------------------------------------------------------

void agent_registry_state::start_agent(const std::string& host) {
  if (!spec_.place)
    return;
  const auto number = next_command_++;
  slot_spec command;
  command.slot = number;
  command.process.arguments = spec_.place.command(host, port_);
  command.process.environment = spec_.environment;
  command.process.keeper = spec_.keeper;
  command.process.keeps_input = true;
  command.process.own_session = true;
  command.input = spec_.secret + "\n";
  command.linger = std::chrono::milliseconds(100);
  auto printed = std::make_shared<last_lines>();
  const slot_owner_actor me = caf::actor_cast<agent_registry_actor>(self_);
  const auto spawned = spec_.slots(command, std::make_shared<collected_output>(printed), me);
  commands_[number] = {host, spawned, printed};
  self_->send(spawned, start_atom::value);
}

void agent_registry_state::command_ended(const slot_ended& event) {
  const auto& command = commands_.at(event.slot);
  const auto code = event.exit_status.code;
  // The table ignores it if the host's agent is connected: then the end of the link reports the loss.
  if (!event.failure.empty())
    return follow(table_.command_failed(command.host, event.failure + spec_.place.remedy, code, now(self_)));
  // The last lines of the output may not have been read yet.
  if (table_.link_of(command.host) && spec_.log)
    spec_.log->debug(spec_.place.name + " for host " + command.host + " " + event.exit_status.text());
  ended_commands_[event.slot] = event.exit_status;
}

void agent_registry_state::command_finished(const slot_finished& event) {
  const auto command = commands_.extract(event.slot);
  if (const auto ended = ended_commands_.extract(event.slot)) {
    last_words_[command.mapped().host] = event.last_lines;
    constexpr int not_found_code = 127; // of the remote shell
    const auto code = ended.mapped().code;
    auto cause = spec_.place.name + " " + ended.mapped().text();
    if (code == not_found_code)
      cause += ": there is no program " + spec_.place.program +
               " there; install Farandole on that host, or name its program by FARANDOLE_REMOTE_PROGRAM";
    follow(table_.command_failed(command.mapped().host, std::move(cause), code, now(self_)));
  }
  end_if_empty();
}

void agent_registry_state::stop_command(const std::string& host) {
  for (const auto& [number, running] : commands_)
    if (running.host == host)
      self_->send(running.slot, signal_atom::value, SIGTERM);
}

std::vector<std::string> agent_registry_state::printed_by(const std::string& host) const {
  std::deque<std::string> lines;
  if (const auto found = last_words_.find(host); found != last_words_.end())
    lines = found->second;
  for (const auto& [number, running] : commands_)
    if (running.host == host)
      lines = running.printed->lines();
  return {lines.begin(), lines.end()};
}

// ---- decisions of the table ------------------------------------------------------------------------------------

void agent_registry_state::follow(const agent_table::step& step) {
  for (const auto& host : step.starts)
    start_agent(host);
  for (const auto& [link, reason] : step.refusals) {
    if (spec_.log)
      spec_.log->warning("refusing an agent: " + reason);
    send(link, encode(address{}, refused{reason}));
    if (const auto found = links_.find(link); found != links_.end())
      caf::anon_send(found->second, close_atom::value);
  }
  for (const auto& [link, host] : step.connected) {
    send(link, agent_accepted_message());
    last_words_.erase(host);
    if (watcher_)
      self_->send(watcher_, host_connected{host, table_.facts().at(host)});
  }
  for (const auto link : step.dismissals)
    send(link, leave_host_message());
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

void agent_registry_state::report(const agent_table::failure& failure) {
  const auto cause =
      "host " + failure.host + (failure.was_connected ? " was lost: " : " cannot be used: ") + failure.cause;
  stop_command(failure.host);
  loss lost{{failure.host, failure.cause, failure.code, failure.was_connected, printed_by(failure.host)}, {}};
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
