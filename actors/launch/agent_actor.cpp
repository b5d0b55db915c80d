#include "actors/launch/agent_actor.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "elastic/network_choice.hpp"
#include "messages/wire/membership.hpp"
#include "messages/wire/records.hpp"

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
  ending_ = {0, spec.times};
  return {
      [this](const slot_ended& event) { ended(event); },
      [this](const slot_finished& event) { finished(event); },
      [this](const agent_traces& event) { handle(event); },
      [this](const address_report& report) { send(encode(report)); },
      [this](start_atom) { start(); },
      [this](retry_atom) { dial_launcher(); },
      [this](dial_atom) { dial_delayed(); },
      [this](interrupt_atom, int signal) { interrupted(signal); },
      [this](close_atom) { end("the command that started this agent has ended"); },
      [this](const link_opened& event) { opened(event); },
      [this](const link_received& event) { received(event); },
      [this](const link_closed& event) { closed(event); },
      [this](const slot_input_taken& event) {
        send(encode(process_input_taken{static_cast<process_number>(event.slot), event.stream,
                                        static_cast<std::uint32_t>(event.bytes)}));
      },
      [this](due_atom) { follow(ending_.due(now(self_))); },
  };
}

// ---- the link --------------------------------------------------------------------------------------------------

void agent_state::start() {
  deadline_ = now(self_) + spec_.links.connect_timeout;
  dial_launcher();
}

void agent_state::dial_launcher() {
  if (problem_)
    return;
  const auto is_ipv4 = [](const auto& address) { return family_of(address.first) == ip_family::v4; };
  const bool has_ipv4 = std::ranges::any_of(spec_.launcher, is_ipv4);
  delayed_.clear();
  for (const auto& address : spec_.launcher)
    if (has_ipv4 && !is_ipv4(address))
      delayed_.push_back(address);
    else
      dial_address(address.first, address.second);
  constexpr std::chrono::milliseconds head_start{250};
  if (!delayed_.empty())
    self_->delayed_send(self_, head_start, dial_atom::value);
}

void agent_state::dial_address(const std::string& ip, std::uint16_t port) {
  auto settings = spec_.links;
  settings.connect_timeout = std::max(deadline_ - now(self_), instant::duration::zero());
  dialled_[++last_dialled_] = {ip, port};
  dial(self_->system(), ip, port, caf::actor_cast<caf::actor>(self_), last_dialled_, settings);
}

void agent_state::dial_delayed() {
  if (!link_ && !problem_)
    for (const auto& [ip, port] : std::exchange(delayed_, {}))
      dial_address(ip, port);
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
  if (const auto failed = dialled_.extract(event.link)) {
    failures_.push_back(failed.mapped().first + ":" + std::to_string(failed.mapped().second) + ": " +
                        event.reason);
    untrusted_ = untrusted_ || event.untrusted;
  }
  if (event.link == number_) {
    link_ = nullptr;
    release_output();
    // Without a link the agent finishes as soon as no process runs, also if the launcher has told it to leave.
    if (!problem_)
      end("the connection to the launcher ended" + (event.reason.empty() ? "" : ": " + event.reason));
    return finish_if_empty();
  }
  if (number_ != 0 || !dialled_.empty())
    return;
  if (!delayed_.empty() && !problem_)
    dial_delayed();
  else
    dial_failed();
}

void agent_state::dial_failed() {
  constexpr std::chrono::seconds pause{1};
  const std::string problem = "the launcher cannot be reached";
  std::string reasons;
  for (const auto& failure : std::exchange(failures_, {}))
    reasons += "\n  " + failure;
  // A process without the secret is at the launcher's address, or this agent has a wrong secret: waiting is in vain.
  if (problem_ || untrusted_ || !spec_.waits_for_launcher || now(self_) + pause >= deadline_) {
    if (!problem_ && !untrusted_ && spec_.unreachable)
      spec_.unreachable();
    return end(problem + reasons);
  }
  if (!std::exchange(warned_, true) && spec_.warn)
    spec_.warn(problem + "; trying again until " + spec_.links.connect_timeout_setting + " has passed" +
               reasons);
  self_->delayed_send(self_, pause, retry_atom::value);
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
          found != processes_.end() && found->second.slot) {
        found->second.told_to_end = true;
        self_->send(found->second.slot, signal_atom::value, request->signal);
      }
    break;
  case wire::Envelope::Body::PROCESS_INPUT:
    if (auto input = decode_process_input(event.message))
      if (const auto found = processes_.find(input->number); found != processes_.end() && found->second.slot)
        self_->send(found->second.slot,
                    slot_input{std::move(input->bytes), caf::actor_cast<agent_actor>(self_), input->stream,
                               input->ended});
    break;
  case wire::Envelope::Body::OUTPUT_CONSUMED:
    if (const auto report = decode_output_consumed(event.message))
      if (const auto found = processes_.find(report->number);
          found != processes_.end() && found->second.output)
        found->second.output->consumed(report->stream, report->bytes);
    break;
  case wire::Envelope::Body::TEST_ADDRESSES:
    if (const auto request = decode_address_test(event.message))
      handle(*request);
    break;
  case wire::Envelope::Body::SEND_RECORDS:
    if (const auto request = decode_record_request(event.message))
      handle(*request);
    break;
  case wire::Envelope::Body::RECORD_PART_TAKEN:
    if (const auto taken = decode_record_part_taken(event.message))
      send_next_part(taken->request);
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

void agent_state::handle(const address_test& request) {
  if (request == address_test{} || problem_)
    return end_test();
  if (!tester_)
    tester_ = self_->spawn<caf::linked>(
        address_tester,
        address_tester_spec{spec_.links, [me = caf::actor_cast<agent_actor>(self_)](
                                             const address_report& report) { caf::anon_send(me, report); }});
  self_->send(tester_, request);
}

void agent_state::end_test() {
  if (auto ended = std::exchange(tester_, nullptr))
    self_->send(ended, close_atom::value);
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
  if (request.joins_job) {
    records_.forget_ended();
    records_.give(spec.slot, spec.process);
  }
  spec.process.directory = request.directory;
  spec.process.channel_variable = request.channel_variable;
  spec.process.keeps_input = request.keeps_input;
  std::string warning;
  if (!request.directory.empty() && ::access(request.directory.c_str(), X_OK) != 0) {
    spec.process.directory.clear();
    warning = "host " + spec_.hello.host + " has no directory " + request.directory +
              " that can be entered; the processes there start in the agent's directory";
  }
  spec.process.keeper = spec_.keeper;
  spec.linger = std::chrono::milliseconds(request.linger_ms);
  spec.started = [this, number = request.number, warning](pid_t process) {
    records_.started(static_cast<std::int32_t>(number), process);
    send(encode(process_started{number, process, warning}));
  };
  auto output = std::make_shared<link_output>(request.number, request.window_bytes,
                                              [this](const envelope& message) { send(message); });
  const auto spawned = spec_.slots(spec, output, caf::actor_cast<agent_actor>(self_));
  processes_[request.number] = {spawned, output, request.joins_job};
  ending_.started();
  self_->send(spawned, start_atom::value);
}

void agent_state::ended(const slot_ended& event) {
  ending_.left();
  const auto& end = event.exit_status;
  const auto number = static_cast<process_number>(event.slot);
  const auto& process = processes_[number];
  const bool is_told = process.told_to_end || ending_.signalled();
  if (event.failure.empty())
    records_.ended({event.slot, end.text(), is_told});
  if (spec_.worker_failed && process.is_worker && !is_told && (end.failed() || !event.failure.empty()))
    worker_failure_ =
        "the worker " + (event.failure.empty() ? end.text() : "has not started: " + event.failure);
  send(encode(process_ended{number, end.code, end.signal, event.failure}));
}

/// A later request replaces an earlier one, whose answer is not awaited any more.
void agent_state::handle(const record_request& request) {
  const auto me = caf::actor_cast<agent_actor>(self_);
  if (request.task.action == record_action::begin_traces) {
    trace_plan plan;
    plan.bounds = {request.task.limits.steps, request.task.limits.bytes};
    plan.sources = [this] { return records_.trace_sources(); }; // the writer ends before the records
    plan.ended = [me, number = request.number] { caf::anon_send(me, agent_traces{number, nullptr}); };
    traces_ = std::make_unique<trace_writer>(std::move(plan));
    return send(encode(records_sent{request.number, {}}));
  }
  if (request.task.action == record_action::copy) {
    sending_.emplace(request.number, records_.held());
    return send_next_part(request.number);
  }
  if (!traces_)
    return send(encode(records_sent{request.number, "it traces nothing, because it joined the job later"}));
  traces_->end([me, number = request.number](written_traces traces) {
    caf::anon_send(me, agent_traces{number, std::make_shared<written_traces>(std::move(traces))});
  });
}

/// Without traces: they have ended by themselves, and remain here until the launcher requests them.
void agent_state::handle(const agent_traces& event) {
  if (!event.traces)
    return send(encode(records_sent{event.number, {}}));
  traces_.reset();
  sending_.emplace(event.number, std::move(*event.traces));
  send_next_part(event.number);
}

void agent_state::send_next_part(std::uint32_t request) {
  if (!sending_ || sending_->request() != request)
    return;
  if (const auto part = sending_->next()) {
    send(*part);
    if (part->kind() == wire::Envelope::Body::RECORDS_SENT)
      sending_.reset();
  }
}

// The number stays known, so that a repeated request does not start the process again.
void agent_state::finished(const slot_finished& event) {
  const auto number = static_cast<process_number>(event.slot);
  send(encode(process_finished{number}));
  processes_[number] = {};
  if (!worker_failure_.empty() && !problem_) {
    spec_.worker_failed();
    return end(worker_failure_);
  }
  finish_if_empty();
}

// ---- the end ---------------------------------------------------------------------------------------------------

void agent_state::interrupted(int signal) {
  if (signal != SIGTERM || !accepted_ || std::exchange(asked_to_leave_, true))
    return end(std::string("received signal ") + ::strsignal(signal));
  send(host_leaving_message());
}

void agent_state::end(const std::string& problem) {
  // An agent that leaves in order may still have to end at once.
  if (problem_ && (problem.empty() || !problem_->empty()))
    return;
  problem_ = problem;
  end_test();
  // To the launcher, the host is lost now; the ends of the processes, which follow, are a consequence.
  if (!problem.empty()) {
    release_output();
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

/// Nothing reads the output of the processes any more, so no process may wait for that.
void agent_state::release_output() {
  for (const auto& [number, process] : processes_)
    if (process.output)
      process.output->release();
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
