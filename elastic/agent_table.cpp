#include "elastic/agent_table.hpp"

#include <algorithm>
#include <set>

namespace farandole {

agent_table::step agent_table::want(const std::vector<std::string>& hosts, time_point current_time) {
  step decision;
  const std::set<std::string> names(hosts.begin(), hosts.end());
  if (rules_.most_others == 0)
    for (auto& [name, entry] : hosts_)
      entry.wanted = names.contains(name);
  for (const auto& name : names)
    if (!ended_)
      hosts_.try_emplace(name).first->second.wanted = true;
  for (auto position = hosts_.begin(); position != hosts_.end();) {
    const auto& [name, entry] = *position;
    if (entry.wanted || entry.agent != 0) {
      ++position;
      continue;
    }
    if (entry.at == state::starting)
      decision.stops.push_back(name);
    position = hosts_.erase(position);
  }
  dismiss_idle(decision);
  return finish(decision, current_time);
}

agent_table::step agent_table::command_failed(const std::string& host, std::string cause, int code,
                                              time_point current_time) {
  step decision;
  if (const auto found = hosts_.find(host); found != hosts_.end() && found->second.at == state::starting)
    fail(host, found->second, std::move(cause), code, current_time, decision);
  return finish(decision, current_time);
}

agent_table::step agent_table::host_missing(const std::string& host, std::string cause, int code,
                                            time_point current_time) {
  step decision;
  const auto found = hosts_.find(host);
  if (found == hosts_.end() || found->second.at != state::starting)
    return finish(decision, current_time);
  auto& entry = found->second;
  const auto next_try = current_time + waits_for_name_.before_try(entry.failures);
  if (!entry.give_up || next_try >= *entry.give_up) {
    if (entry.give_up && entry.failures > 0)
      cause += ", in each of " + std::to_string(entry.failures + 1) + " tries within " +
               rules_.start_timeout_setting;
    fail(host, entry, std::move(cause), code, current_time, decision);
  } else {
    if (entry.failures++ == 0)
      decision.postponed.emplace_back(host, std::move(cause));
    entry.at = state::waiting;
    entry.deadline = next_try;
  }
  return finish(decision, current_time);
}

agent_table::step agent_table::hello(link from, const agent_hello& hello, time_point current_time) {
  step decision;
  if (auto reason = objection(hello); !reason.empty()) {
    decision.refusals.emplace_back(from, std::move(reason));
    // The command that started this agent runs on, but no other agent will come from this host.
    if (const auto found = hosts_.find(hello.host);
        hello.wire_version != wire_version && found != hosts_.end() && found->second.at == state::starting)
      fail(hello.host, found->second, decision.refusals.front().second, 1, current_time, decision);
    return finish(decision, current_time);
  }
  auto& entry = hosts_[hello.host];
  entry.at = state::connected;
  entry.agent = from;
  entry.failures = 0;
  names_[from] = hello.host;
  facts_[hello.host] = hello;
  decision.connected.emplace_back(from, hello.host);
  return finish(decision, current_time);
}

std::string agent_table::objection(const agent_hello& hello) const {
  if (hello.wire_version != wire_version)
    return "host " + hello.host + " has version " + hello.version + " of Farandole (" + hello.program +
           "), and the launcher has version " + rules_.version + ": install the same version on all hosts";
  if (ended_)
    return "the job has ended";
  const auto found = hosts_.find(hello.host);
  if (found == hosts_.end() || !found->second.wanted) {
    if (rules_.most_others > hosts_.size() && found == hosts_.end())
      return {};
    if (rules_.most_others > 0 && found == hosts_.end())
      return "the job already has " + std::to_string(hosts_.size()) + " agents, as many as --agents allows";
    return "host " + hello.host + " is not one of the job's hosts";
  }
  if (found->second.agent != 0)
    return "host " + hello.host + " already has an agent; give each agent a name of its own (--host)";
  return {};
}

agent_table::step agent_table::leaving(link from, time_point current_time) {
  step decision;
  if (const auto name = host_of(from)) {
    hosts_.at(*name).wanted = false;
    if (!rules_.retries)
      dismiss(hosts_.at(*name), decision);
  }
  dismiss_idle(decision);
  return finish(decision, current_time);
}

agent_table::step agent_table::closed(link from, const std::string& reason, time_point current_time) {
  step decision;
  const auto name = host_of(from);
  if (!name)
    return finish(decision, current_time);
  auto& entry = hosts_.at(*name);
  names_.erase(from);
  facts_.erase(*name);
  const bool left = entry.at == state::leaving && entry.processes == 0;
  if (left && entry.wanted) {
    entry.at = state::queued; // it was wanted again while its agent was leaving
    entry.agent = 0;
  } else if (left || !entry.wanted || rules_.most_others > 0) {
    if (!left)
      decision.failures.push_back(
          {*name, reason.empty() ? "its agent ended the connection" : reason, 1, true});
    hosts_.erase(*name);
  } else
    fail(*name, entry, reason.empty() ? "its agent ended the connection" : reason, 1, current_time, decision);
  return finish(decision, current_time);
}

agent_table::step agent_table::running(const std::string& host, std::size_t processes,
                                       time_point current_time) {
  step decision;
  if (const auto found = hosts_.find(host); found != hosts_.end())
    found->second.processes = processes;
  dismiss_idle(decision);
  return finish(decision, current_time);
}

agent_table::step agent_table::end(time_point current_time) {
  step decision;
  ended_ = true;
  for (auto& [name, entry] : hosts_)
    entry.wanted = false;
  for (const auto& [name, entry] : hosts_)
    if (entry.at == state::starting)
      decision.stops.push_back(name);
  std::erase_if(hosts_, [](const auto& entry) { return entry.second.agent == 0; });
  for (auto& [name, entry] : hosts_)
    dismiss(entry, decision);
  return finish(decision, current_time);
}

agent_table::step agent_table::due(time_point current_time) {
  step decision;
  for (auto& [name, entry] : hosts_) {
    if (entry.at == state::starting && entry.deadline <= current_time) {
      decision.stops.push_back(name);
      fail(name, entry, "its agent has not connected within " + rules_.start_timeout_setting, 1, current_time,
           decision);
      decision.failures.back().timed_out = true;
    } else if (entry.at == state::waiting && entry.deadline <= current_time) {
      entry.at = state::queued;
    }
  }
  return finish(decision, current_time);
}

void agent_table::fail(const std::string& host, entry& entry, std::string cause, int code,
                       time_point current_time, step& decision) {
  decision.failures.push_back({host, std::move(cause), code, entry.at == state::connected});
  entry.at = state::waiting;
  entry.agent = 0;
  entry.processes = 0;
  const bool again = rules_.retries && entry.wanted && !ended_;
  entry.deadline = again ? current_time + waits_.before_try(entry.failures++) : time_point::max();
}

void agent_table::dismiss_idle(step& decision) {
  for (auto& [name, entry] : hosts_)
    if (!entry.wanted && entry.processes == 0)
      dismiss(entry, decision);
}

void agent_table::dismiss(entry& entry, step& decision) {
  if (entry.at != state::connected)
    return;
  entry.at = state::leaving;
  decision.dismissals.push_back(entry.agent);
}

agent_table::step& agent_table::finish(step& decision, time_point current_time) {
  auto starting = static_cast<std::size_t>(std::count_if(
      hosts_.begin(), hosts_.end(), [](const auto& entry) { return entry.second.at == state::starting; }));
  for (auto& [name, entry] : hosts_) {
    if (entry.at != state::queued || starting == rules_.starts_at_once)
      continue;
    entry.at = state::starting;
    entry.deadline = current_time + rules_.start_timeout;
    if (!rules_.retries)
      entry.deadline = *(entry.give_up = entry.give_up.value_or(entry.deadline));
    decision.starts.push_back(name);
    ++starting;
  }
  for (const auto& [name, entry] : hosts_)
    if ((entry.at == state::starting || entry.at == state::waiting) && entry.deadline != time_point::max() &&
        (!decision.call_next || entry.deadline < *decision.call_next))
      decision.call_next = entry.deadline;
  return decision;
}

std::optional<agent_table::link> agent_table::link_of(const std::string& host) const {
  const auto found = hosts_.find(host);
  if (found == hosts_.end() || found->second.at != state::connected)
    return {};
  return found->second.agent;
}

std::optional<agent_table::link> agent_table::serving_link_of(const std::string& host) const {
  const auto found = hosts_.find(host);
  return found == hosts_.end() || found->second.agent == 0 ? std::nullopt
                                                           : std::optional(found->second.agent);
}

std::optional<std::string> agent_table::host_of(link from) const {
  const auto found = names_.find(from);
  return found == names_.end() ? std::nullopt : std::optional(found->second);
}

bool agent_table::is_starting(const std::string& host) const {
  const auto found = hosts_.find(host);
  return found != hosts_.end() && found->second.at == state::starting;
}

std::vector<std::string> agent_table::missing() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : hosts_)
    if (entry.wanted && entry.at != state::connected)
      names.push_back(name);
  return names;
}

} // namespace farandole
