#include "tools/farandole/report/host_delays.hpp"

#include <algorithm>
#include <optional>

namespace farandole {

namespace {

/// A link whose messages travel longer than this many times the median is slow.
constexpr int usual_variation = 2;
/// Links without which there is no median.
constexpr std::size_t fewest_links = 3;
/// Operations that are looked at together.
constexpr std::size_t block_size = 16;

trace_time median_of(std::vector<trace_time> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

const traced_call* scheduled_call(std::span<const rank_trace> traces, const matched_operation& operation,
                                  std::size_t trace) {
  const auto& call = operation.calls[trace];
  return call && traces[trace].calls[*call].sequence ? &traces[trace].calls[*call] : nullptr;
}

/// Time on the way from the leader to each host: the median over these operations; nothing if no clock tells.
std::vector<std::optional<trace_time>> travel_times(std::span<const rank_trace> traces,
                                                    const matched_calls& matched,
                                                    std::span<const std::size_t> operations,
                                                    const host_numbers& hosts, std::size_t leader) {
  std::vector<std::vector<trace_time>> times(hosts.size());
  std::vector<std::optional<trace_time>> first(hosts.size());
  for (const auto number : operations) {
    const auto& operation = matched.operations[number];
    const auto* on_leader = scheduled_call(traces, operation, leader);
    std::ranges::fill(first, std::nullopt);
    for (std::size_t i = 0; i < traces.size(); ++i)
      if (const auto* call = scheduled_call(traces, operation, i);
          call && traces[i].axis == traces[leader].axis && call->sequence == on_leader->sequence) {
        auto& time = first[hosts.of(i)];
        time = std::min(time.value_or(call->scheduled), call->scheduled);
      }
    for (std::size_t host = 0; host < hosts.size(); ++host)
      if (first[host])
        times[host].push_back(*first[host] - on_leader->scheduled);
  }
  std::vector<std::optional<trace_time>> medians;
  for (const auto& of_host : times)
    medians.push_back(of_host.empty() ? std::nullopt : std::optional(median_of(of_host)));
  return medians;
}

/// By host: the next one on the way to the leader.
std::vector<std::size_t> hosts_above(std::span<const rank_trace> traces, const host_numbers& hosts,
                                     std::size_t leader) {
  std::map<std::int32_t, std::size_t> host_of_rank;
  for (std::size_t i = 0; i < traces.size(); ++i)
    host_of_rank[traces[i].rank] = hosts.of(i);
  std::vector<std::size_t> above(hosts.size(), hosts.of(leader));
  for (std::size_t i = 0; i < traces.size(); ++i)
    if (const auto found = host_of_rank.find(traces[i].above); found != host_of_rank.end())
      above[hosts.of(i)] = found->second;
  return above;
}

std::vector<host_delay> delays_of(std::span<const std::optional<trace_time>> times,
                                  std::span<const std::size_t> above, std::size_t leader_host) {
  std::vector<host_delay> delays(times.size());
  std::vector<std::optional<trace_time>> of_link(times.size());
  std::vector<trace_time> known;
  for (std::size_t host = 0; host < times.size(); ++host)
    if (host != leader_host && times[host] && times[above[host]]) {
      of_link[host] = std::max(trace_time{0}, *times[host] - *times[above[host]]);
      known.push_back(*of_link[host]);
    }
  if (known.size() < fewest_links)
    return delays;
  const auto usual = median_of(known);
  for (std::size_t host = 0; host < times.size(); ++host) {
    trace_time largest{0};
    auto next = host;
    // Damaged records may name each other, so the way is not longer than the number of hosts.
    for (std::size_t length = 0; next != leader_host && length < times.size(); ++length) {
      if (of_link[next] && *of_link[next] > usual_variation * usual) {
        const auto excess = *of_link[next] - usual;
        delays[host].excess += excess;
        if (excess > largest) {
          largest = excess;
          delays[host].cause = next;
        }
      }
      next = above[next];
    }
  }
  return delays;
}

} // namespace

host_numbers::host_numbers(std::span<const rank_trace> traces) {
  std::map<std::string, std::size_t> numbers;
  for (const auto& trace : traces) {
    const auto [found, is_new] = numbers.try_emplace(trace.host, numbers.size());
    if (is_new)
      names_.push_back(trace.host);
    of_trace_.push_back(found->second);
  }
}

host_delays::host_delays(std::span<const rank_trace> traces, const matched_calls& matched,
                         const host_numbers& hosts, std::size_t leader)
    : of_block_{std::vector<host_delay>(hosts.size())}, block_of_operation_(matched.operations.size()) {
  if (hosts.size() <= fewest_links)
    return;
  std::vector<std::size_t> order;
  for (std::size_t operation = 0; operation < matched.operations.size(); ++operation)
    if (scheduled_call(traces, matched.operations[operation], leader))
      order.push_back(operation);
  std::ranges::sort(order, {}, [&](std::size_t operation) {
    return scheduled_call(traces, matched.operations[operation], leader)->scheduled;
  });
  const auto above = hosts_above(traces, hosts, leader);
  for (std::size_t begin = 0; begin < order.size(); begin += block_size) {
    const auto block = std::span(order).subspan(begin, std::min(block_size, order.size() - begin));
    for (const auto operation : block)
      block_of_operation_[operation] = of_block_.size();
    of_block_.push_back(
        delays_of(travel_times(traces, matched, block, hosts, leader), above, hosts.of(leader)));
  }
}

} // namespace farandole
