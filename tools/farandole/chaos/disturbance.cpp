#include "tools/farandole/chaos/disturbance.hpp"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <limits>

namespace farandole::chaos {

namespace {

double milliseconds(disturbance::time_point when) {
  return std::chrono::duration<double, std::milli>(when.time_since_epoch()).count();
}

std::string send_signal(std::int64_t pid, int number) {
  return ::kill(static_cast<pid_t>(pid), number) == 0 ? std::string() : std::strerror(errno);
}

std::string name_of(const seat& seat) {
  return "rank " + std::to_string(seat.rank) + " (slot " + std::to_string(seat.slot) + ")";
}

} // namespace

disturbance::disturbance(trial& on, std::vector<fault> schedule, std::int32_t fewest, time_point begin,
                         time_point end)
    : on_(on), schedule_(std::move(schedule)), fewest_(fewest), begin_(begin), end_(end) {}

/// Reverts all temporary faults, so that no process stays stopped.
disturbance::~disturbance() {
  for (const auto& repair : repairs_)
    repair.carry_out();
}

void disturbance::go_on(time_point current_time) {
  for (std::size_t i = 0; i < repairs_.size();) {
    if (repairs_[i].at > current_time) {
      ++i;
      continue;
    }
    repairs_[i].carry_out();
    repairs_.erase(repairs_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  while (reached_ < schedule_.size() &&
         (begin_ + schedule_[reached_].at <= current_time || current_time >= end_)) {
    const auto& entry = schedule_[reached_];
    if (current_time < end_ && !hindrance(entry).empty()) {
      begin_ = current_time - entry.at;
      return;
    }
    inject(entry, current_time);
    ++reached_;
  }
}

std::string disturbance::hindrance(const fault& injected) const {
  const auto members = static_cast<std::int32_t>(on_.seen().members().size());
  if (members == 0)
    return "no worker trained any more";
  if (row_of(injected.kind).costs_member && members <= fewest_)
    return "only " + std::to_string(members) + (members == 1 ? " member was" : " members were") + " left";
  const bool asks_rendezvous = injected.kind == fault_kind::rendezvous || injected.kind == fault_kind::drain;
  if (asks_rendezvous && on_.rendezvous() && !on_.rendezvous()->runs())
    return "the rendezvous was away";
  return {};
}

void disturbance::inject(const fault& injected, time_point current_time) {
  done entry{injected, milliseconds(current_time), {}, 0, {}, hindrance(injected)};
  if (entry.note.empty() && current_time >= end_)
    entry.note = "the time was over";
  if (entry.note.empty()) {
    const auto members = on_.seen().members();
    const auto& victim = members[injected.victim % members.size()];
    entry.generation = victim.generation;
    const bool present = row_of(injected.kind).hits_member;
    entry.note =
        present ? hit_member(injected, victim, current_time) : hit_rendezvous(injected, current_time);
    if (entry.note.empty() && present)
      entry.victim = victim;
    if (entry.note.empty())
      entry.hit = present ? name_of(victim) : "the rendezvous";
  }
  if (!entry.note.empty())
    entry.note = "left out: " + entry.note;
  std::cout << "farandole chaos: " << to_text(injected) << (entry.note.empty() ? "" : ": " + entry.note)
            << std::endl;
  done_.push_back(std::move(entry));
}

std::string disturbance::hit_member(const fault& injected, const seat& victim, time_point current_time) {
  const auto back = [this, host = victim.host] { on_.bring_back(host); };
  switch (injected.kind) {
  case fault_kind::kill:
    return send_signal(victim.pid, SIGKILL);
  case fault_kind::stop:
    repairs_.push_back({current_time + injected.lasts, [pid = victim.pid] { send_signal(pid, SIGCONT); }});
    return send_signal(victim.pid, SIGSTOP);
  case fault_kind::drain:
    if (auto problem = on_.drain(victim.rank); !problem.empty())
      return problem;
    on_.take_out(victim.host); // so that discovery reports it as a new host when it is back
    repairs_.push_back({current_time + injected.lasts, back});
    return {};
  case fault_kind::host:
    on_.take_out(victim.host);
    repairs_.push_back({current_time + injected.lasts, back});
    return {};
  case fault_kind::agent:
    return on_.kill_agent(victim.host);
  case fault_kind::shell:
    return on_.kill_shell(victim.host);
  case fault_kind::link:
  case fault_kind::cut: {
    const auto up = [this, host = victim.host] {
      if (const auto problem = on_.set_link(host, true); !problem.empty())
        std::cerr << "farandole chaos: the link of " << host << " is not up: " << problem << std::endl;
    };
    if (auto problem = on_.set_link(victim.host, false); !problem.empty())
      return problem;
    repairs_.push_back({current_time + injected.lasts, up});
    return {};
  }
  case fault_kind::rendezvous:
    break;
  }
  return "no such fault";
}

std::string disturbance::hit_rendezvous(const fault& injected, time_point current_time) {
  auto* rendezvous = on_.rendezvous();
  if (!rendezvous)
    return "the rendezvous is a part of the launcher";
  rendezvous->kill();
  const auto again = [rendezvous] {
    if (const auto problem = rendezvous->start_again())
      std::cerr << "farandole chaos: the rendezvous is not back: " << problem.text << std::endl;
  };
  repairs_.push_back({current_time + injected.lasts, again});
  return {};
}

std::vector<fault> disturbance::left() const {
  return {schedule_.begin() + static_cast<std::ptrdiff_t>(reached_), schedule_.end()};
}

std::chrono::milliseconds disturbance::gone(time_point current_time) const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(current_time - begin_);
}

std::vector<outcome> disturbance::outcomes() const {
  std::vector<outcome> all;
  for (auto at = done_.begin(); at != done_.end(); ++at) {
    // Events after the next fault are attributed to that fault.
    const auto next = std::find_if(at + 1, done_.end(), [](const done& other) { return !other.hit.empty(); });
    all.push_back(
        outcome_of(*at, next == done_.end() ? std::numeric_limits<double>::infinity() : next->at_ms));
  }
  return all;
}

outcome disturbance::outcome_of(const done& done, double until_ms) const {
  outcome result{done.injected, done.at_ms, done.hit, done.note, {}};
  if (done.hit.empty())
    return result;
  timeline::cause cause{done.at_ms, until_ms, done.generation, -1, row_of(done.injected.kind).costs_member};
  if (done.victim)
    cause.slot = done.victim->slot;
  result.got = on_.seen().recovery_of(cause);
  if (!row_of(done.injected.kind).hits_member) {
    const auto lasts = static_cast<double>(done.injected.lasts.count());
    const auto commits = on_.seen().commits_between(done.at_ms, done.at_ms + lasts);
    result.note = std::to_string(commits) + (commits == 1 ? " commit meanwhile" : " commits meanwhile");
  }
  return result;
}

} // namespace farandole::chaos
