#include "actors/launch/agent_actor.hpp"

#include <signal.h>
#include <unistd.h>

#include <utility>

#include "actors/event_loop/clock.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

namespace {

std::string_view name_of(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

/// The entries of `base`, replaced and extended by those of `changes`.
std::vector<std::string> merged(std::vector<std::string> base, const std::vector<std::string>& changes) {
  std::map<std::string, std::size_t, std::less<>> positions; // owns the names: the entries change and move
  for (std::size_t i = 0; i < base.size(); ++i)
    positions.emplace(name_of(base[i]), i);
  for (const auto& entry : changes) {
    const auto found = positions.find(name_of(entry));
    if (found == positions.end())
      base.push_back(entry);
    else
      base[found->second] = entry;
  }
  return base;
}

constexpr std::string_view launcher_variable = "FARANDOLE_LAUNCHER_PROCESS";

} // namespace

agent_actor::behavior_type agent(agent_actor::stateful_pointer<agent_state> self, const agent_spec& spec) {
  return self->state.begin(spec);
}

agent_actor::behavior_type agent_state::begin(const agent_spec& spec) {
  spec_ = spec;
  return {
      [this](const slot_ended& event) { ended(event); },
      [this](const slot_finished& event) { finished(event); },
      [this](start_atom) { dial_launcher(); },
      [this](interrupt_atom, int signal) { interrupted(signal); },
      [this](close_atom) { end("the command that started this agent has ended"); },
      [this](const link_opened& event) { opened(event); },
      [this](const link_received& event) { received(event); },
      [this](const link_closed& event) { closed(event); },
      [this](const slot_input_taken& event) {
        send(encode(process_input_taken{static_cast<process_number>(event.slot),
                                        static_cast<std::uint32_t>(event.bytes)}));
      },
      [this](due_atom) { follow(ending_.due(now(self_))); },
  };
}

// ---- the link --------------------------------------------------------------------------------------------------

void agent_state::dial_launcher() {
  link_id number = 0;
  for (const auto& [ip, port] : spec_.launcher) {
    dialled_[++number] = {ip, port};
    dial(self_->system(), ip, port, caf::actor_cast<caf::actor>(self_), number, spec_.links);
  }
}

void agent_state::opened(const link_opened& event) {
  const auto reached = dialled_.extract(event.link);
  if (link_ || problem_) {
    caf::anon_send(event.handle, close_atom::value);
    return;
  }
  link_ = event.handle;
  number_ = event.link;
  spec_.hello.reached = reached.mapped().first;
  spec_.hello.own = spec_.own_address_towards(spec_.hello.reached);
  send(encode(spec_.hello));
}

void agent_state::closed(const link_closed& event) {
  if (const auto failed = dialled_.extract(event.link))
    failures_.push_back(failed.mapped().first + ":" + std::to_string(failed.mapped().second) + ": " +
                        event.reason);
  if (event.link == number_) {
    link_ = nullptr;
    end("the connection to the launcher ended" + (event.reason.empty() ? "" : ": " + event.reason));
    return finish_if_empty();
  }
  if (number_ != 0 || !dialled_.empty())
    return;
  std::string text = "the launcher cannot be reached";
  for (const auto& failure : failures_)
    text += "\n  " + failure;
  end(text);
}

void agent_state::received(const link_received& event) {
  if (event.link != number_)
    return;
  switch (event.message.kind()) {
  case wire::Envelope::Body::AGENT_ACCEPTED:
    accepted_ = true;
    break;
  case wire::Envelope::Body::REFUSED: {
    const auto refusal = decode_refused(event.message);
    end("the launcher refused this agent: " + (refusal ? refusal->reason : refusal.error().text));
    break;
  }
  case wire::Envelope::Body::START_PROCESS:
    if (const auto request = decode_start_request(event.message))
      start_process(*request);
    else
      end(request.error().text);
    break;
  case wire::Envelope::Body::SIGNAL_PROCESS:
    if (const auto request = decode_process_signal(event.message))
      if (const auto found = processes_.find(request->number);
          found != processes_.end() && found->second.slot)
        self_->send(found->second.slot, signal_atom::value, request->signal);
    break;
  case wire::Envelope::Body::PROCESS_INPUT:
    if (auto input = decode_process_input(event.message))
      if (const auto found = processes_.find(input->number); found != processes_.end() && found->second.slot)
        self_->send(found->second.slot,
                    slot_input{std::move(input->bytes), caf::actor_cast<agent_actor>(self_)});
    break;
  case wire::Envelope::Body::OUTPUT_CONSUMED:
    if (const auto report = decode_output_consumed(event.message))
      if (const auto found = processes_.find(report->number);
          found != processes_.end() && found->second.output)
        found->second.output->consumed(report->stream, report->bytes);
    break;
  case wire::Envelope::Body::LEAVE_HOST:
    end({});
    break;
  default:
    end("the launcher sent a message that is not for an agent");
  }
}

void agent_state::send(const envelope& message) {
  if (link_)
    caf::anon_send(link_, message);
}

// ---- processes -------------------------------------------------------------------------------------------------

void agent_state::start_process(const start_request& request) {
  if (problem_ || processes_.contains(request.number))
    return;
  slot_spec spec;
  spec.slot = static_cast<std::int32_t>(request.number);
  spec.process.arguments = request.arguments;
  spec.process.environment = merged(spec_.environment, request.environment);
  if (request.joins_job) {
    spec.process.environment = merged(std::move(spec.process.environment), spec_.own_variables);
    spec.process.inherited = spec_.inherited;
  }
  // To the workers, signals of the agent are those of the launcher.
  for (auto& entry : spec.process.environment)
    if (name_of(entry) == launcher_variable)
      entry = std::string(launcher_variable) + "=" + std::to_string(::getpid());
  spec.process.directory = request.directory;
  spec.process.channel_variable = request.channel_variable;
  std::string warning;
  if (!request.directory.empty() && ::access(request.directory.c_str(), X_OK) != 0) {
    spec.process.directory.clear();
    warning = "host " + spec_.hello.host + " has no directory " + request.directory +
              " that can be entered; the processes there start in the agent's directory";
  }
  spec.process.keeper = spec_.keeper;
  spec.linger = std::chrono::milliseconds(request.linger_ms);
  spec.started = [this, number = request.number, warning](pid_t process) {
    send(encode(process_started{number, process, warning}));
  };
  auto output = std::make_shared<link_output>(request.number, request.window_bytes,
                                              [this](const envelope& message) { send(message); });
  const auto spawned = spec_.slots(spec, output, caf::actor_cast<agent_actor>(self_));
  processes_[request.number] = {spawned, output};
  ending_.started();
  self_->send(spawned, start_atom::value);
}

void agent_state::ended(const slot_ended& event) {
  ending_.left();
  const auto& end = event.exit_status;
  send(encode(process_ended{static_cast<process_number>(event.slot), end.code, end.signal, event.failure}));
}

// The number stays known, so that a repeated request does not start the process again.
void agent_state::finished(const slot_finished& event) {
  const auto number = static_cast<process_number>(event.slot);
  send(encode(process_finished{number}));
  processes_[number] = {};
  finish_if_empty();
}

// ---- the end ---------------------------------------------------------------------------------------------------

void agent_state::interrupted(int signal) {
  if (signal != SIGTERM || !accepted_ || std::exchange(asked_to_leave_, true))
    return end(std::string("received signal ") + ::strsignal(signal));
  send(host_leaving_message());
}

void agent_state::end(const std::string& problem) {
  if (problem_)
    return;
  problem_ = problem;
  // To the launcher, the host is lost now; the ends of the processes, which follow, are a consequence.
  if (!problem.empty()) {
    send(encode(address{}, refused{problem}));
    if (link_)
      caf::anon_send(link_, close_atom::value);
  }
  follow(ending_.interrupted(SIGTERM, now(self_)));
  finish_if_empty();
}

void agent_state::follow(const job_ending::step& step) {
  if (step.signal != 0)
    for (const auto& [number, process] : processes_)
      if (process.slot)
        self_->send(process.slot, signal_atom::value, step.signal);
  if (step.call_next)
    self_->delayed_send(self_, *step.call_next - now(self_), due_atom::value);
}

void agent_state::finish_if_empty() {
  if (!problem_)
    return;
  for (const auto& [number, process] : processes_)
    if (process.slot)
      return;
  if (link_) {
    if (problem_->empty())
      caf::anon_send(link_, close_atom::value);
    return; // link_closed follows
  }
  if (spec_.finished)
    std::exchange(spec_.finished, nullptr)(*problem_);
  self_->quit();
}

} // namespace farandole
