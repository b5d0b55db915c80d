#include "elastic/worker_scheduler.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace farandole {

namespace {

constexpr int failed = 1;        ///< exit code of a job that ends by a rule and not by a worker
constexpr int told_to_end = 143; ///< of a job whose workers all got SIGTERM

std::string seconds_text(std::chrono::nanoseconds duration) {
  const auto rounded = std::chrono::ceil<std::chrono::seconds>(duration);
  return std::to_string(rounded.count()) + " s";
}

std::string list_of(const std::vector<host_slots>& hosts) {
  std::string text;
  for (const auto& host : hosts)
    text += (text.empty() ? "" : ", ") + host.name + ":" + std::to_string(host.slots);
  return text;
}

std::string change_text(const host_pool::change& change) {
  std::string text = "farandole: the hosts have changed:";
  if (!change.added.empty())
    text += " more slots: " + list_of(change.added) + (change.removed.empty() ? "" : ";");
  if (!change.removed.empty())
    text += " fewer slots: " + list_of(change.removed);
  return text;
}

} // namespace

std::string reset_limit_text(std::int32_t limit) {
  // bindings/python/farandole/runner/elastic/constants.py has the same text, for programs that search for it.
  return "The job was ended because its reset limit is exceeded: its workers changed (failed, joined or "
         "left) or started over after an error more often than --reset-limit " +
         std::to_string(limit) +
         " allows. Look for the first failure and the last error above, or give a higher limit.";
}

auto worker_scheduler::take_over(const std::vector<failed_host>& failed, time_point current_time,
                                 wall_time wall) -> step {
  step decision;
  host_pool_.failed().restore(failed, current_time, wall);
  for (const auto& host : failed)
    if (host_pool_.failed().holds(host.name, current_time)) {
      const auto deadline = host_pool_.failed().returns_at(host.name, current_time);
      decision.lines.push_back(
          "farandole: host " + host.name + " gets no new workers " +
          (deadline ? "for " + seconds_text(*deadline - current_time) : std::string("at all")) +
          ": it failed before this launcher was started again, says the journal (without "
          "that file the job begins anew)");
    }
  return decision;
}

auto worker_scheduler::hosts_found(const std::vector<host_slots>& found, time_point current_time) -> step {
  step decision;
  if (over_ || finishing_)
    return decision;
  if (found.empty() && started_) {
    if (!std::exchange(emptiness_told_, true))
      decision.lines.push_back(
          "farandole: discovery found no host at all; the job goes on with those it had");
    return decision;
  }
  emptiness_told_ = false;
  if (formed_ && !options_.serves_calls && !keeps_member(found)) {
    end(failed,
        "farandole: discovery took out every host that has members (" + list_of(host_pool_.hosts()) +
            "), and with them the state of the training; now it tells " + list_of(found) +
            ". Leave at least one of the old hosts in until the new ones have joined",
        decision);
    return decision;
  }
  const auto change = host_pool_.update(found);
  if (started_ && !(change.added.empty() && change.removed.empty()))
    decision.lines.push_back(change_text(change));
  forget_limits(change);
  retire_surplus(decision);
  refill(current_time, decision);
  return finish(current_time, decision);
}

auto worker_scheduler::leaving(std::int32_t slot, time_point current_time) -> step {
  step decision;
  const auto found = workers_.find(slot);
  if (over_ || found == workers_.end() || std::exchange(found->second.retired, true))
    return decision;
  const auto& worker = found->second;
  limits_[worker.host] = living_on(worker.host);
  decision.retire.push_back(slot);
  decision.lines.push_back("farandole: Process " + worker.name() +
                           " was told to end: it leaves at the next commit");
  if (!finishing_ && !has_member())
    end(told_to_end, "farandole: no member stays that has the state of the training; the job ends", decision);
  refill(current_time, decision);
  return finish(current_time, decision);
}

auto worker_scheduler::drain_workers(const drain& asked, time_point current_time)
    -> std::pair<draining, step> {
  step decision;
  if (over_ || finishing_)
    return {{"the job is coming to its end", {}, false}, decision};
  std::vector<drain_candidate> all;
  for (const auto& [slot, worker] : workers_) {
    const auto rank = ranks_.find(slot);
    all.push_back({{rank == ranks_.end() ? -1 : rank->second, slot, worker.host}, worker.retired});
  }
  auto plan = plan_drain(asked, all, options_.fewest);
  for (const auto& leaver : plan.leavers) {
    auto& entry = workers_.at(leaver.slot);
    if (!std::exchange(entry.retired, true)) {
      decision.retire.push_back(leaver.slot);
      decision.lines.push_back("farandole: Process " + entry.name() +
                               " is drained: it leaves at the next commit");
    }
  }
  for (const auto& leaver : plan.leavers)
    limits_[leaver.host] = living_on(leaver.host);
  refill(current_time, decision);
  return {std::move(plan), finish(current_time, decision)};
}

auto worker_scheduler::ended(std::int32_t slot, int code, time_point current_time, double uniform) -> step {
  step decision;
  const auto found = workers_.find(slot);
  assert(found != workers_.end());
  const worker worker_entry = found->second;
  workers_.erase(found);
  if (over_)
    return decision;
  const bool has_finished = code == 0 && (finishing_ || !options_.serves_calls);
  if (!worker_entry.retired && has_finished)
    decision.complete = !std::exchange(finishing_, true);
  else if (!worker_entry.retired)
    fail(slot, worker_entry, code, current_time, uniform, decision);
  end_if_finished(decision);
  refill(current_time, decision);
  return finish(current_time, decision);
}

void worker_scheduler::end_if_finished(step& decision) {
  if (over_ || !finishing_ || (options_.serves_calls ? !workers_.empty() : has_member()))
    return;
  // Workers that have not joined would wait in vain, or restart the training.
  end(failure_ ? failure_->code : 0,
      living() == 0 ? std::string()
                    : "farandole: the training has come to its end; ending " + std::to_string(living()) +
                          " that had not joined it yet",
      decision);
}

auto worker_scheduler::resize(std::int32_t count, time_point current_time) -> step {
  step decision;
  if (over_ || finishing_)
    return decision;
  if (count == 0) {
    decision.complete = finishing_ = true;
    end_if_finished(decision);
    return decision;
  }
  options_.limit = count;
  retire_last(living() - count, decision);
  refill(current_time, decision);
  return finish(current_time, decision);
}

bool worker_scheduler::counts(std::int32_t slot) const {
  const auto found = workers_.find(slot);
  return found != workers_.end() && !found->second.retired &&
         !(formed_ && found->second.was_member && !world_.contains(slot));
}

void worker_scheduler::fail(std::int32_t slot, const worker& worker_entry, int code, time_point current_time,
                            double uniform, step& decision) {
  // Its exit may be reported after the others have continued without it.
  const bool outlived = formed_ && worker_entry.was_member && !world_.contains(slot);
  const auto before = failure_;
  if (!failure_)
    failure_ = {worker_entry.name(), code};
  decision.lines.push_back("Process " + worker_entry.name() + " exit with status code " +
                           std::to_string(code) + ".");
  if ((finishing_ && !outlived) || !has_member()) {
    end(failure_->code,
        living() == 0 ? std::string()
                      : "Terminating remaining workers after failure of Process " + worker_entry.name() + ".",
        decision);
    return;
  }
  if (outlived || options_.serves_calls)
    failure_ = before;
  if (host_pool_.fail(worker_entry.host, current_time, uniform)) {
    decision.blacklisted = true;
    const auto deadline = host_pool_.failed().returns_at(worker_entry.host, current_time);
    decision.lines.push_back("farandole: host " + worker_entry.host + " gets no new workers " +
                             (deadline ? "for " + seconds_text(*deadline - current_time)
                                       : "any more (--blacklist-cooldown-range lets hosts come back)"));
  }
  if (formed_ && is_member(slot) && options_.reset_limit && resets_ >= *options_.reset_limit)
    end(failed, reset_limit_text(*options_.reset_limit), decision);
}

auto worker_scheduler::generation_formed(std::uint64_t generation, const std::vector<std::int32_t>& slots,
                                         time_point current_time) -> step {
  step decision;
  if (over_ || generation <= generation_)
    return decision;
  generation_ = generation;
  world_ = {slots.begin(), slots.end()};
  ranks_.clear();
  for (const auto slot : slots)
    ranks_.emplace(slot, static_cast<std::int32_t>(ranks_.size()));
  if (slots.empty())
    for (const auto& [slot, worker] : workers_)
      if (!worker.retired)
        world_.insert(slot);
  for (auto& [slot, worker] : workers_)
    worker.was_member = worker.was_member || world_.contains(slot);
  failure_.reset();
  if (std::exchange(formed_, true) && !finishing_) {
    ++resets_;
    if (options_.reset_limit && resets_ > *options_.reset_limit)
      end(failed, reset_limit_text(*options_.reset_limit), decision);
  }
  return finish(current_time, decision);
}

auto worker_scheduler::due(time_point current_time) -> step {
  step decision;
  if (asked_ && current_time >= *asked_)
    asked_.reset();
  if (over_)
    return decision;
  refill(current_time, decision);
  if (deadline_ && current_time >= *deadline_) {
    decision.timed_out = true;
    end(failed,
        "farandole: waited " + seconds_text(options_.timeout) +
            " (--elastic-timeout) for more slots: " + shortage() + "; hosts: " + hosts_text(current_time) +
            ". Add hosts, lower --min-np, or let hosts that failed come back (--blacklist-cooldown-range)",
        decision);
  }
  return finish(current_time, decision);
}

bool worker_scheduler::has_member() const {
  if (options_.serves_calls)
    return true;
  return std::any_of(workers_.begin(), workers_.end(),
                     [this](const auto& entry) { return !entry.second.retired && is_member(entry.first); });
}

bool worker_scheduler::keeps_member(const std::vector<host_slots>& found) const {
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
    const auto& [slot, worker] = entry;
    return !worker.retired && is_member(slot) &&
           std::any_of(found.begin(), found.end(), [&worker = worker](const host_slots& host) {
             return host.name == worker.host && host.slots > worker.local;
           });
  });
}

std::int32_t worker_scheduler::living() const {
  return static_cast<std::int32_t>(std::count_if(workers_.begin(), workers_.end(),
                                                 [](const auto& entry) { return !entry.second.retired; }));
}

std::int32_t worker_scheduler::living_on(const std::string& host) const {
  return static_cast<std::int32_t>(std::count_if(workers_.begin(), workers_.end(), [&](const auto& entry) {
    return !entry.second.retired && entry.second.host == host;
  }));
}

bool worker_scheduler::has_room(const host_slots& host) const {
  const auto limit = limits_.find(host.name);
  return limit == limits_.end() || living_on(host.name) < limit->second;
}

bool worker_scheduler::is_taken(const std::string& host, std::int32_t local) const {
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
    return entry.second.host == host && entry.second.local == local;
  });
}

void worker_scheduler::forget_limits(const host_pool::change& change) {
  for (const auto& host : change.added)
    limits_.erase(host.name);
}

void worker_scheduler::retire_surplus(step& decision) {
  for (auto& [slot, worker] : workers_) {
    if (worker.retired || worker.local < host_pool_.slots(worker.host))
      continue;
    worker.retired = true;
    decision.retire.push_back(slot);
  }
}

void worker_scheduler::retire_last(std::int32_t count, step& decision) {
  for (auto entry = workers_.rbegin(); entry != workers_.rend() && count > 0; ++entry) {
    if (std::exchange(entry->second.retired, true))
      continue;
    decision.retire.push_back(entry->first);
    --count;
  }
}

void worker_scheduler::refill(time_point current_time, step& decision) {
  if (over_ || finishing_)
    return;
  const auto usable = host_pool_.usable(current_time);
  if (!started_) {
    std::int64_t slots = 0;
    for (const auto& host : usable)
      slots += host.slots;
    started_ = slots >= options_.processes;
  }
  if (started_)
    start_workers(usable, decision);
  watch_size(started_ && living() >= options_.fewest, current_time, decision);
}

void worker_scheduler::start_workers(const std::vector<host_slots>& usable, step& decision) {
  auto room = options_.limit - living();
  for (const auto& host : usable)
    for (std::int32_t local = 0; local < host.slots && room > 0; ++local) {
      if (is_taken(host.name, local) || !has_room(host))
        continue;
      const auto slot = next_slot_++;
      workers_[slot] = {host.name, local};
      decision.starts.push_back({slot, host.name, local});
      --room;
    }
}

void worker_scheduler::watch_size(bool enough, time_point current_time, step& decision) {
  if (enough) {
    deadline_.reset();
    return;
  }
  const bool in_vain =
      !options_.hosts_may_come && !options_.cooldown && !host_pool_.failed().next_return(current_time);
  if (in_vain)
    end(failure_ ? failure_->code : failed,
        "farandole: " + shortage() + ", and no other hosts can come; hosts: " + hosts_text(current_time) +
            ". Lower --min-np, let hosts that failed come back (--blacklist-cooldown-range), or find hosts "
            "with --host-discovery-script",
        decision);
  else if (!deadline_) {
    deadline_ = current_time + std::chrono::duration_cast<time_point::duration>(options_.timeout);
    decision.lines.push_back("farandole: waiting up to " + seconds_text(options_.timeout) +
                             " (--elastic-timeout) for more slots: " + shortage());
  }
}

void worker_scheduler::end(int code, std::string line, step& decision) {
  over_ = decision.over = true;
  code_ = code;
  if (!line.empty())
    decision.lines.push_back(std::move(line));
  decision.starts.clear();
}

auto worker_scheduler::finish(time_point current_time, step& decision) -> step& {
  if (over_ || finishing_)
    return decision;
  auto next = deadline_;
  if (const auto back = host_pool_.failed().next_return(current_time); back && (!next || *back < *next))
    next = back;
  if (next && (!asked_ || *next < *asked_))
    decision.call_next = asked_ = next;
  return decision;
}

std::string worker_scheduler::shortage() const {
  if (!started_)
    return "the hosts have fewer slots than the " + std::to_string(options_.processes) +
           " that the job starts with (-np)";
  return "the job has fewer workers than the " + std::to_string(options_.fewest) +
         " workers that it needs (--min-np): " + std::to_string(living());
}

std::string worker_scheduler::hosts_text(time_point current_time) const {
  std::string text;
  for (const auto& host : host_pool_.hosts()) {
    text += (text.empty() ? "" : ", ") + host.name + ":" + std::to_string(host.slots);
    if (host_pool_.failed().holds(host.name, current_time))
      text += " (failed)";
  }
  return text.empty() ? "none" : text;
}

} // namespace farandole
