#include "elastic/reach_check.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

reach_check::reach_check(const std::vector<tested_host>& hosts, std::chrono::milliseconds timeout)
    : timeout_(timeout) {
  for (const auto& host : hosts)
    hosts_.push_back({host, {}, 0, {}, hosts.size() <= most_for_all_pairs ? hosts.size() - 1 : 1});
}

std::vector<std::size_t> reach_check::targets_of(std::size_t position) const {
  if (hosts_.size() > most_for_all_pairs)
    return {(position + 1) % hosts_.size()};
  std::vector<std::size_t> targets;
  for (std::size_t target = 0; target < hosts_.size(); ++target)
    if (target != position)
      targets.push_back(target);
  return targets;
}

reach_check::step reach_check::begin(time_point current_time) {
  // Each host has as much time again to receive a request, and to report.
  deadline_ = current_time + 3 * timeout_;
  step decision;
  decision.call_next = deadline_;
  for (const auto& host : hosts_)
    decision.requests.push_back(
        {host.tested.host, {host.tested.candidates, {}, static_cast<std::uint32_t>(timeout_.count())}});
  return decision;
}

reach_check::step reach_check::reported(const std::string& host, const address_report& report,
                                        time_point current_time) {
  const auto reporter =
      std::ranges::find_if(hosts_, [&](const auto& entry) { return entry.tested.host == host; });
  if (is_complete_ || reporter == hosts_.end())
    return {};
  for (const auto& address : report.listening) {
    ++reporter->reported;
    if (address.problem.empty())
      reporter->listening.push_back(address);
    else
      reporter->attempts.push_back({address.address, host, address.problem});
  }
  for (const auto& dialled : report.dialled)
    for (const auto target : targets_of(static_cast<std::size_t>(reporter - hosts_.begin()))) {
      auto& entry = hosts_[target];
      if (std::ranges::find(entry.tested.candidates, dialled.address) != entry.tested.candidates.end())
        entry.attempts.push_back({dialled.address, host, dialled.problem});
    }
  const bool all_listen = std::ranges::all_of(
      hosts_, [](const auto& entry) { return entry.reported >= entry.tested.candidates.size(); });
  if (!all_listen)
    return {};
  auto decision = complete_if_decided(current_time); // at once if a host can listen nowhere
  if (!decision.complete && !std::exchange(dials_, true))
    return dial();
  return decision;
}

reach_check::step reach_check::dial() const {
  step decision;
  for (std::size_t position = 0; position < hosts_.size(); ++position) {
    const auto& host = hosts_[position];
    address_test test{host.tested.candidates, {}, static_cast<std::uint32_t>(timeout_.count())};
    for (const auto target : targets_of(position))
      for (const auto& address : hosts_[target].listening)
        test.dial.push_back(address);
    decision.requests.push_back({host.tested.host, std::move(test)});
  }
  return decision;
}

reach_check::state reach_check::state_of(const entry& host) const {
  bool is_preferred = true;
  for (const auto& candidate : host.tested.candidates) {
    std::size_t reached = 0;
    bool failed = false;
    for (const auto& attempt : host.attempts)
      if (attempt.address == candidate) {
        reached += attempt.problem.empty();
        failed = failed || !attempt.problem.empty();
      }
    if (failed)
      continue;
    if (reached == host.dialling)
      return is_preferred ? state::decided : state::usable;
    is_preferred = false;
  }
  return is_preferred ? state::decided : state::waiting; // all have failed
}

reach_check::step reach_check::complete_if_decided(time_point current_time) {
  bool all_decided = true;
  for (const auto& host : hosts_) {
    const auto found = state_of(host);
    if (found == state::waiting)
      return {};
    all_decided = all_decided && found == state::decided;
  }
  if (all_decided)
    return complete();
  step decision;
  deadline_ = std::min(deadline_, current_time + head_start);
  decision.call_next = deadline_;
  return decision;
}

reach_check::step reach_check::due(time_point current_time) {
  if (is_complete_ || current_time < deadline_)
    return {};
  return complete();
}

reach_check::step reach_check::complete() {
  is_complete_ = true;
  step decision;
  decision.complete = true;
  for (const auto& host : hosts_)
    decision.requests.push_back({host.tested.host, {}});
  return decision;
}

std::map<std::string, std::vector<connection_attempt>> reach_check::attempts() const {
  std::map<std::string, std::vector<connection_attempt>> found;
  for (const auto& host : hosts_)
    found.emplace(host.tested.host, host.attempts);
  return found;
}

} // namespace farandole
