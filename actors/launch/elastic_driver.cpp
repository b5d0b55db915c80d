#include "actors/launch/elastic_driver.hpp"

#include <signal.h>

#include <cassert>
#include <utility>

#include "actors/event_loop/clock.hpp"

namespace farandole {

elastic_driver_actor::behavior_type
elastic_driver(elastic_driver_actor::stateful_pointer<elastic_driver_state> self,
               const elastic_driver_spec& spec) {
  return self->state.begin(spec);
}

elastic_driver_actor::behavior_type elastic_driver_state::begin(const elastic_driver_spec& spec) {
  spec_ = spec;
  chance_.seed(spec.seed);
  spec_.scheduler.hosts_may_come = spec_.script || spec_.hands->agents;
  scheduler_ = std::make_unique<worker_scheduler>(spec_.scheduler);
  ending_ = std::make_unique<job_ending>(0, spec_.times);
  hosts_ = usable_hosts(spec_.first_agents);
  return {
      [this](start_atom) { start(); },
      [this](interrupt_atom, int signal) { interrupted(signal); },
      [this](const generation_formed& event) { formed(event); },
      [this](const slot_leaving& event) { leaving(event); },
      [this](const drain_asked& event) { drain(event); },
      [this](const slot_fate& slot_fate) { cause_.learn(slot_fate); },
      [this](const discovery_result& result) { discovered(result); },
      [this](const host_connected& event) { connected(event); },
      [this](const host_unusable& event) { failed(event); },
      [this](const host_leaves& event) { leaves(event); },
      [this](const slot_ended& event) { ended(event); },
      [this](const slot_finished& event) { finished(event); },
      [this](const workers_wanted& event) { follow(scheduler_->resize(event.count, now(self_))); },
      [this](due_atom) { due(); },
  };
}

void elastic_driver_state::start() {
  follow(scheduler_->take_over(spec_.failed, now(self_), spec_.hands->wall()));
  const auto me = caf::actor_cast<elastic_driver_actor>(self_);
  if (spec_.hands->agents)
    self_->send(spec_.hands->agents, watch_hosts{me});
  if (!spec_.script) {
    hosts_.found(spec_.hosts);
    use_hosts();
    return;
  }
  discoverer_ = spec_.hands->discoverer(*spec_.script, me);
  self_->send(discoverer_, run_atom::value);
}

void elastic_driver_state::interrupted(int signal) {
  scheduler_->stop();
  stop_discovery();
  follow(ending_->interrupted(signal, now(self_)));
  finish_if_empty();
}

void elastic_driver_state::discovered(const discovery_result& result) {
  if (scheduler_->over())
    return;
  if (!result.problem.empty()) {
    discovery_failed(result);
    return;
  }
  discovered_once_ = true;
  if (result.found.notes != last_discovery_lines_)
    for (const auto& note : result.found.notes)
      say("farandole: " + note);
  last_discovery_lines_ = result.found.notes;
  hosts_.found(result.found);
  use_hosts();
}

void elastic_driver_state::use_hosts() {
  if (auto names = hosts_.wanted_agents(); names && spec_.hands->agents)
    self_->send(spec_.hands->agents, hosts_wanted{std::move(*names)});
  if (auto hosts = hosts_.usable())
    follow(scheduler_->hosts_found(*hosts, now(self_)));
}

void elastic_driver_state::connected(const host_connected& event) {
  if (scheduler_->over())
    return;
  agents_[event.host] = event.facts;
  if (hosts_.connected(event.host, event.facts.slots > 0 ? event.facts.slots : event.facts.cores))
    say("farandole: host " + event.host + " can be used again");
  use_hosts();
}

/// A host that was lost is reported by its slots as well, which have ended. A host that cannot be reached is reported
/// once, although it is tried again.
void elastic_driver_state::failed(const host_unusable& event) {
  if (scheduler_->over())
    return;
  agents_.erase(event.host);
  const bool is_news = hosts_.failed(event.host);
  if (event.was_connected)
    say("farandole: host " + event.host + " was lost: " + event.cause);
  else if (is_news) {
    say("farandole: host " + event.host + " cannot be used, and is tried again: " + event.cause);
    for (const auto& line : event.printed)
      say("farandole:   " + line);
  }
  use_hosts();
}

void elastic_driver_state::leaves(const host_leaves& event) {
  hosts_.leaves(event.host);
  use_hosts();
}

/// A script that has never succeeded is assumed to be broken, and the job ends. If it has succeeded before, the
/// failure may be temporary, and the job goes on with the hosts that it knows.
void elastic_driver_state::discovery_failed(const discovery_result& result) {
  std::vector<std::string> lines{"farandole: " + result.problem};
  if (!result.printed.empty())
    lines.push_back(result.printed.substr(0, result.printed.find_last_not_of('\n') + 1));
  if (discovered_once_)
    lines.emplace_back("farandole: the job goes on with the hosts that it knows");
  if (lines != last_discovery_lines_)
    for (const auto& line : lines)
      say(line);
  last_discovery_lines_ = lines;
  if (discovered_once_)
    return;
  say("farandole: the job has been shutdown, because no hosts could be found (--host-discovery-script)");
  give_up(1);
}

void elastic_driver_state::formed(const generation_formed& event) {
  members_ = {event.slots.begin(), event.slots.end()};
  std::erase_if(retired_, [this](const auto& entry) { return members_.contains(entry.first); });
  cause_.begin_generation(event.slots);
  std::erase_if(reports_, [this](const auto& entry) { return !slots_.contains(entry.first); });
  follow(scheduler_->generation_formed(event.generation, event.slots, now(self_)));
}

void elastic_driver_state::leaving(const slot_leaving& event) {
  follow(scheduler_->leaving(event.slot, now(self_)));
}

void elastic_driver_state::drain(const drain_asked& event) {
  auto [plan, step] = scheduler_->drain_workers(event.request, now(self_));
  if (plan.problem.empty())
    drains_.add(event.link, plan.leavers);
  if (spec_.answer_drain)
    spec_.answer_drain({event.link, std::move(plan)});
  follow(step);
}

void elastic_driver_state::ended(const slot_ended& event) {
  const bool ran = event.failure.empty();
  const auto manner = ran ? event.exit_status.text() : "could not be started: " + event.failure;
  if (!ran && std::exchange(start_failure_, event.failure) != event.failure)
    say("Process " + std::to_string(event.slot) + " " + manner);
  if (spec_.slot_exited)
    spec_.slot_exited(event.slot, manner);
  for (auto& [link, leavers] : drains_.ended(event.slot))
    if (spec_.answer_drain)
      spec_.answer_drain({link, {{}, std::move(leavers), true}});
  const bool counts = scheduler_->counts(event.slot), told_to_end = ending_->signalled();
  if (counts) {
    if (ran)
      cause_.ended(event.slot, event.exit_status, ending_->signalled());
    else
      cause_.could_not_start(event.slot, manner, event.exit_status.code);
  }
  ending_->left();
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto step = scheduler_->ended(event.slot, event.exit_status.code, now(self_), uniform(chance_));
  if (ran && spec_.worker_ended) {
    const bool lost = counts && !told_to_end && event.exit_status.failed() && members_.contains(event.slot);
    spec_.worker_ended({event.slot, event.exit_status.text(), told_to_end, lost && !scheduler_->over()});
  }
  follow(step);
}

void elastic_driver_state::finished(const slot_finished& event) {
  if (spec_.slot_complete)
    spec_.slot_complete(event.slot);
  slots_.erase(event.slot);
  retired_.erase(event.slot);
  cause_.wrote(event.slot, event.last_lines);
  if (const auto report = reports_.find(event.slot); report != reports_.end())
    report->second.last_lines = event.last_lines;
  finish_if_empty();
}

void elastic_driver_state::due() {
  follow(ending_->due(now(self_)));
  for (auto& [slot, ending] : retired_)
    signal(slot, ending.due(now(self_)));
  follow(scheduler_->due(now(self_)));
}

void elastic_driver_state::follow(const worker_scheduler::step& step) {
  if (step.blacklisted && spec_.hosts_failed)
    spec_.hosts_failed(scheduler_->failed_hosts(now(self_), spec_.hands->wall()));
  for (const auto& line : step.lines)
    say(line);
  for (const auto slot : step.retire)
    retire(slot);
  for (const auto& start : step.starts)
    start_worker(start);
  if (step.complete && spec_.no_more_starts)
    spec_.no_more_starts();
  if (step.call_next)
    self_->delayed_send(self_, *step.call_next - now(self_), due_atom::value);
  if (step.timed_out && spec_.timed_out)
    spec_.timed_out();
  if (step.over)
    give_up(scheduler_->code());
}

void elastic_driver_state::start_worker(const worker_scheduler::start& start) {
  if (scheduler_->over())
    return;
  const auto agent = agents_.find(start.host);
  auto slot_spec_result = spec_.slot_for(start, agent == agents_.end() ? nullptr : &agent->second);
  if (!slot_spec_result) {
    say("farandole: " + slot_spec_result.error().text);
    give_up(1);
    return;
  }
  assert(slot_spec_result->slot == start.slot);
  const slot_owner_actor me = caf::actor_cast<elastic_driver_actor>(self_);
  const auto worker = spec_.hands->slot(*slot_spec_result, caf::actor_cast<elastic_driver_actor>(self_));
  slots_[start.slot] = worker;
  reports_[start.slot] = {start.host + "[" + std::to_string(start.local) + "]",
                          0,
                          "",
                          "",
                          slot_spec_result->label,
                          slot_spec_result->folder,
                          {}};
  ending_->started();
  self_->send(worker, start_atom::value);
}

void elastic_driver_state::retire(std::int32_t slot) {
  if (spec_.slot_retired)
    spec_.slot_retired(slot);
  if (spec_.scheduler.serves_calls || members_.contains(slot) || !slots_.contains(slot))
    return;
  auto& ending = retired_.try_emplace(slot, 1, spec_.times).first->second;
  signal(slot, ending.interrupted(SIGTERM, now(self_)));
}

void elastic_driver_state::signal(std::int32_t slot, const job_ending::step& step) {
  if (step.signal == 0)
    return;
  self_->send(slots_.at(slot), signal_atom::value, step.signal);
  if (step.call_next)
    self_->delayed_send(self_, *step.call_next - now(self_), due_atom::value);
}

void elastic_driver_state::give_up(int code) {
  scheduler_->stop();
  stop_discovery();
  follow(ending_->wind_up(code, now(self_)));
  finish_if_empty();
}

void elastic_driver_state::follow(const job_ending::step& step) {
  for (const auto& line : step.lines)
    say(line);
  if (step.signal != 0)
    for (const auto& [slot, worker] : slots_)
      self_->send(worker, signal_atom::value, step.signal);
  if (step.call_next)
    self_->delayed_send(self_, *step.call_next - now(self_), due_atom::value);
}

void elastic_driver_state::stop_discovery() {
  if (discoverer_)
    self_->send(discoverer_, close_atom::value);
  discoverer_ = nullptr;
}

void elastic_driver_state::finish_if_empty() {
  if (!scheduler_->over() || !slots_.empty() || !spec_.finished)
    return;
  std::exchange(spec_.finished, nullptr)(summarise());
  self_->quit();
}

int elastic_driver_state::summarise() {
  const auto& first = scheduler_->first_failure();
  if (!first || scheduler_->code() == 0)
    return ending_->code();
  auto code = first->code;
  failure_report report{first->worker, code, "", "failed", "", "", {}};
  const auto cause = cause_.judge();
  if (cause && reports_.contains(cause->slot)) {
    code = cause->code;
    report = reports_.at(cause->slot);
    report.code = cause->process_code;
    report.text = cause->text;
  }
  std::vector<failed_process> others;
  for (const auto slot : cause_.failed())
    if (const auto found = reports_.find(slot);
        found != reports_.end() && found->second.process != report.process)
      others.push_back({found->second.process, found->second.last_lines});
  for (const auto& line : failure_summary(report, others))
    say(line);
  // A rule of the worker scheduler, or a signal, may have set another exit code for the job.
  return ending_->code() == first->code ? code : ending_->code();
}

void elastic_driver_state::say(const std::string& line) {
  spec_.hands->say(line);
}

} // namespace farandole
