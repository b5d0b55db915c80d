#include "elastic/crew.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace farandole {

namespace {

constexpr int failed = 1;        ///< exit code of a job that ends by a rule and not by a worker
constexpr int told_to_end = 143; ///< of one whose workers all got SIGTERM

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

std::string change_text(const host_book::change& what) {
  std::string text = "farandole: the hosts have changed:";
  if (!what.added.empty())
    text += " more slots: " + list_of(what.added) + (what.removed.empty() ? "" : ";");
  if (!what.removed.empty())
    text += " fewer slots: " + list_of(what.removed);
  return text;
}

} // namespace

std::string reset_limit_text(std::int32_t limit) {
  // bindings/python/farandole/runner/elastic/constants.py has the same words, for those who look for them.
  return "The job was ended because its reset limit is exceeded: its workers changed (failed, joined or "
         "left) or started over after an error more often than --reset-limit " +
         std::to_string(limit) +
         " allows. Look for the first failure and the last error above, or give a higher limit.";
}

auto crew::take_over(const std::vector<failed_host>& failed, time_point now, wall_time wall) -> step {
  step out;
  book_.failed().restore(failed, now, wall);
  for (const auto& host : failed)
    if (book_.failed().holds(host.name, now)) {
      const auto until = book_.failed().returns_at(host.name, now);
      out.lines.push_back("farandole: host " + host.name + " gets no new workers " +
                          (until ? "for " + seconds_text(*until - now) : std::string("at all")) +
                          ": it failed before this launcher was started again, says the journal (without "
                          "that file the job begins anew)");
    }
  return out;
}

auto crew::hosts_found(const std::vector<host_slots>& found, time_point now) -> step {
  step out;
  if (over_ || finishing_)
    return out;
  if (found.empty() && started_) {
    if (!std::exchange(emptiness_told_, true))
      out.lines.push_back("farandole: discovery found no host at all; the job goes on with those it had");
    return out;
  }
  emptiness_told_ = false;
  if (formed_ && !keeps_member(found)) {
    end(failed,
        "farandole: discovery took out every host that has members (" + list_of(book_.hosts()) +
            "), and with them the state of the training; now it tells " + list_of(found) +
            ". Leave at least one of the old hosts in until the new ones have joined",
        out);
    return out;
  }
  const auto what = book_.update(found);
  if (started_ && !(what.added.empty() && what.removed.empty()))
    out.lines.push_back(change_text(what));
  forget_limits(what);
  retire_surplus(out);
  refill(now, out);
  return finish(now, out);
}

auto crew::leaving(std::int32_t slot, time_point now) -> step {
  step out;
  const auto found = workers_.find(slot);
  if (over_ || found == workers_.end() || std::exchange(found->second.retired, true))
    return out;
  const auto& who = found->second;
  limits_[who.host] = living_on(who.host);
  out.retire.push_back(slot);
  out.lines.push_back("farandole: Process " + who.name() + " was told to end: it leaves at the next commit");
  if (!finishing_ && !has_member())
    end(told_to_end, "farandole: no member stays that has the state of the training; the job ends", out);
  refill(now, out);
  return finish(now, out);
}

auto crew::drain_workers(const drain& asked, time_point now) -> std::pair<draining, step> {
  step out;
  if (over_ || finishing_)
    return {{"the job is coming to its end", {}, false}, out};
  std::vector<drain_candidate> all;
  for (const auto& [slot, who] : workers_) {
    const auto rank = ranks_.find(slot);
    all.push_back({{rank == ranks_.end() ? -1 : rank->second, slot, who.host}, who.retired});
  }
  auto plan = plan_drain(asked, all, options_.fewest);
  for (const auto& each : plan.leavers) {
    auto& who = workers_.at(each.slot);
    if (!std::exchange(who.retired, true)) {
      out.retire.push_back(each.slot);
      out.lines.push_back("farandole: Process " + who.name() + " is drained: it leaves at the next commit");
    }
  }
  for (const auto& each : plan.leavers)
    limits_[each.host] = living_on(each.host);
  refill(now, out);
  return {std::move(plan), finish(now, out)};
}

auto crew::ended(std::int32_t slot, int code, time_point now, double uniform) -> step {
  step out;
  const auto found = workers_.find(slot);
  assert(found != workers_.end());
  const worker who = found->second;
  workers_.erase(found);
  if (over_)
    return out;
  if (!who.retired && code == 0)
    out.complete = !std::exchange(finishing_, true);
  else if (!who.retired)
    fail(slot, who, code, now, uniform, out);
  // Workers that have not got in would wait in vain, or begin the training anew.
  if (!over_ && finishing_ && !has_member())
    end(failure_ ? failure_->code : 0,
        living() == 0 ? std::string()
                      : "farandole: the training has come to its end; ending " + std::to_string(living()) +
                            " that had not joined it yet",
        out);
  refill(now, out);
  return finish(now, out);
}

bool crew::counts(std::int32_t slot) const {
  const auto found = workers_.find(slot);
  return found != workers_.end() && !found->second.retired &&
         !(formed_ && found->second.was_member && !world_.contains(slot));
}

void crew::fail(std::int32_t slot, const worker& who, int code, time_point now, double uniform, step& out) {
  // Its exit may be told after the others have gone on without it.
  const bool outlived = formed_ && who.was_member && !world_.contains(slot);
  const auto before = failure_;
  if (!failure_)
    failure_ = {who.name(), code};
  out.lines.push_back("Process " + who.name() + " exit with status code " + std::to_string(code) + ".");
  if ((finishing_ && !outlived) || !has_member()) {
    end(failure_->code,
        living() == 0 ? std::string()
                      : "Terminating remaining workers after failure of Process " + who.name() + ".",
        out);
    return;
  }
  if (outlived)
    failure_ = before;
  if (book_.fail(who.host, now, uniform)) {
    out.blacklisted = true;
    const auto until = book_.failed().returns_at(who.host, now);
    out.lines.push_back("farandole: host " + who.host + " gets no new workers " +
                        (until ? "for " + seconds_text(*until - now)
                               : "any more (--blacklist-cooldown-range lets hosts come back)"));
  }
  if (formed_ && is_member(slot) && options_.reset_limit && resets_ >= *options_.reset_limit)
    end(failed, reset_limit_text(*options_.reset_limit), out);
}

auto crew::generation_formed(std::uint64_t generation, const std::vector<std::int32_t>& slots, time_point now)
    -> step {
  step out;
  if (over_ || generation <= generation_)
    return out;
  generation_ = generation;
  world_ = {slots.begin(), slots.end()};
  ranks_.clear();
  for (const auto slot : slots)
    ranks_.emplace(slot, static_cast<std::int32_t>(ranks_.size()));
  if (slots.empty())
    for (const auto& [slot, who] : workers_)
      if (!who.retired)
        world_.insert(slot);
  for (auto& [slot, who] : workers_)
    who.was_member = who.was_member || world_.contains(slot);
  failure_.reset();
  if (std::exchange(formed_, true) && !finishing_) {
    ++resets_;
    if (options_.reset_limit && resets_ > *options_.reset_limit)
      end(failed, reset_limit_text(*options_.reset_limit), out);
  }
  return finish(now, out);
}

auto crew::due(time_point now) -> step {
  step out;
  if (asked_ && now >= *asked_)
    asked_.reset();
  if (over_)
    return out;
  refill(now, out);
  if (deadline_ && now >= *deadline_)
    end(failed,
        "farandole: waited " + seconds_text(options_.timeout) +
            " (--elastic-timeout) for more slots: " + shortage() + "; hosts: " + hosts_text(now) +
            ". Add hosts, lower --min-np, or let hosts that failed come back (--blacklist-cooldown-range)",
        out);
  return finish(now, out);
}

bool crew::has_member() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [this](const auto& each) { return !each.second.retired && is_member(each.first); });
}

bool crew::keeps_member(const std::vector<host_slots>& found) const {
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& each) {
    const auto& [slot, who] = each;
    return !who.retired && is_member(slot) &&
           std::any_of(found.begin(), found.end(), [&who = who](const host_slots& host) {
             return host.name == who.host && host.slots > who.local;
           });
  });
}

std::int32_t crew::living() const {
  return static_cast<std::int32_t>(
      std::count_if(workers_.begin(), workers_.end(), [](const auto& each) { return !each.second.retired; }));
}

std::int32_t crew::living_on(const std::string& host) const {
  return static_cast<std::int32_t>(std::count_if(workers_.begin(), workers_.end(), [&](const auto& each) {
    return !each.second.retired && each.second.host == host;
  }));
}

bool crew::has_room(const host_slots& host) const {
  const auto limit = limits_.find(host.name);
  return limit == limits_.end() || living_on(host.name) < limit->second;
}

bool crew::is_taken(const std::string& host, std::int32_t local) const {
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& each) {
    return each.second.host == host && each.second.local == local;
  });
}

void crew::forget_limits(const host_book::change& what) {
  for (const auto& host : what.added)
    limits_.erase(host.name);
}

void crew::retire_surplus(step& out) {
  for (auto& [slot, who] : workers_) {
    if (who.retired || who.local < book_.slots(who.host))
      continue;
    who.retired = true;
    out.retire.push_back(slot);
  }
}

void crew::refill(time_point now, step& out) {
  if (over_ || finishing_)
    return;
  const auto usable = book_.usable(now);
  if (!started_) {
    std::int64_t slots = 0;
    for (const auto& host : usable)
      slots += host.slots;
    started_ = slots >= options_.processes;
  }
  if (started_)
    start_workers(usable, out);
  watch_size(started_ && living() >= options_.fewest, now, out);
}

void crew::start_workers(const std::vector<host_slots>& usable, step& out) {
  auto room = options_.most - living();
  for (const auto& host : usable)
    for (std::int32_t local = 0; local < host.slots && room > 0; ++local) {
      if (is_taken(host.name, local) || !has_room(host))
        continue;
      const auto slot = next_slot_++;
      workers_[slot] = {host.name, local};
      out.starts.push_back({slot, host.name, local});
      --room;
    }
}

void crew::watch_size(bool enough, time_point now, step& out) {
  if (enough) {
    deadline_.reset();
    return;
  }
  const bool in_vain = !options_.hosts_may_come && !options_.cooldown && !book_.failed().next_return(now);
  if (in_vain)
    end(failure_ ? failure_->code : failed,
        "farandole: " + shortage() + ", and no other hosts can come; hosts: " + hosts_text(now) +
            ". Lower --min-np, let hosts that failed come back (--blacklist-cooldown-range), or find hosts "
            "with --host-discovery-script",
        out);
  else if (!deadline_) {
    deadline_ = now + std::chrono::duration_cast<time_point::duration>(options_.timeout);
    out.lines.push_back("farandole: waiting up to " + seconds_text(options_.timeout) +
                        " (--elastic-timeout) for more slots: " + shortage());
  }
}

void crew::end(int code, std::string line, step& out) {
  over_ = out.over = true;
  code_ = code;
  if (!line.empty())
    out.lines.push_back(std::move(line));
  out.starts.clear();
}

auto crew::finish(time_point now, step& out) -> step& {
  if (over_ || finishing_)
    return out;
  auto next = deadline_;
  if (const auto back = book_.failed().next_return(now); back && (!next || *back < *next))
    next = back;
  if (next && (!asked_ || *next < *asked_))
    out.call_next = asked_ = next;
  return out;
}

std::string crew::shortage() const {
  if (!started_)
    return "the hosts have fewer slots than the " + std::to_string(options_.processes) +
           " that the job starts with (-np)";
  return "the job has fewer workers than the " + std::to_string(options_.fewest) +
         " workers that it needs (--min-np): " + std::to_string(living());
}

std::string crew::hosts_text(time_point now) const {
  std::string text;
  for (const auto& host : book_.hosts()) {
    text += (text.empty() ? "" : ", ") + host.name + ":" + std::to_string(host.slots);
    if (book_.failed().holds(host.name, now))
      text += " (failed)";
  }
  return text.empty() ? "none" : text;
}

} // namespace farandole
