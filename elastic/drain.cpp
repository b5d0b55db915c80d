#include "elastic/drain.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

namespace {

template <class Range>
bool has(const Range& range, const auto& value) {
  return std::find(range.begin(), range.end(), value) != range.end();
}

std::string names_of(const std::vector<drain_candidate>& workers) {
  std::set<std::string> hosts;
  for (const auto& worker : workers)
    hosts.insert(worker.departing.host);
  std::string text;
  for (const auto& host : hosts)
    text += (text.empty() ? "" : ", ") + host;
  return text;
}

/// Names a rank or host that does not exist; empty if all of them do.
std::string unknown(const drain& asked, const std::vector<drain_candidate>& workers, std::int32_t members) {
  for (const auto rank : asked.ranks)
    if (std::none_of(workers.begin(), workers.end(),
                     [&](auto& entry) { return entry.departing.rank == rank; }))
      return "there is no rank " + std::to_string(rank) +
             (members == 1 ? ": the job has rank 0 only"
                           : ": the job has ranks 0 to " + std::to_string(members - 1));
  for (const auto& host : asked.hosts)
    if (std::none_of(workers.begin(), workers.end(),
                     [&](auto& entry) { return entry.departing.host == host; }))
      return "there is no worker on host '" + host + "': the job has workers on " + names_of(workers);
  return {};
}

} // namespace

draining plan_drain(const drain& asked, const std::vector<drain_candidate>& workers, std::int32_t fewest) {
  draining plan;
  const auto is_member = [](const drain_candidate& candidate) { return candidate.departing.rank >= 0; };
  const auto members = static_cast<std::int32_t>(std::count_if(workers.begin(), workers.end(), is_member));
  if (members == 0) {
    plan.problem = "the members of the job are not connected yet, so none can leave in order";
    return plan;
  }
  if (plan.problem = unknown(asked, workers, members); !plan.problem.empty())
    return plan;
  std::int32_t stay = 0;
  bool anybody_new = false;
  for (const auto& worker : workers) {
    const bool chosen = has(asked.ranks, worker.departing.rank) || has(asked.hosts, worker.departing.host);
    if (chosen)
      plan.leavers.push_back(worker.departing);
    anybody_new = anybody_new || (chosen && !worker.leaves);
    stay += is_member(worker) && !chosen && !worker.leaves ? 1 : 0;
  }
  if (anybody_new && stay < fewest) {
    plan.leavers.clear();
    plan.problem = "the job would go on with " + std::to_string(stay) + " of its members, fewer than the " +
                   std::to_string(fewest) + " that it needs (--min-np)";
  }
  return plan;
}

void drain_watch::add(ticket request_ticket, const std::vector<leaver>& leavers) {
  wait entry{request_ticket, leavers, {}};
  for (const auto& leaver : leavers)
    entry.missing.insert(leaver.slot);
  waits_.push_back(std::move(entry));
}

auto drain_watch::ended(std::int32_t slot) -> std::vector<std::pair<ticket, std::vector<leaver>>> {
  std::vector<std::pair<ticket, std::vector<leaver>>> done;
  for (auto& entry : waits_)
    if (entry.missing.erase(slot) > 0 && entry.missing.empty())
      done.emplace_back(entry.request_ticket, std::move(entry.leavers));
  std::erase_if(waits_, [](const wait& wait) { return wait.missing.empty(); });
  return done;
}

} // namespace farandole
