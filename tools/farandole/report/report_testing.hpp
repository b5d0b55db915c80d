// Records of whole jobs, made from a seed: ranks that compute and call collectives in steps, with what slows them down.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "messages/record/event_kinds.hpp"
#include "messages/record/event_reader.hpp"
#include "messages/values/signature.hpp"
#include "tools/farandole/report/job_report.hpp"

namespace farandole {

struct job_plan {
  std::int32_t ranks = 2;
  std::int32_t ranks_per_host = 1'000; ///< the clocks of hosts differ
  bool measured_clocks = false;        ///< the records tell by how much
  int steps = 40;
  std::uint64_t seed = 1;
  bool fast_path = true;     ///< otherwise through the leader
  bool asynchronous = false; ///< calls all tensors before it waits for the first; through the leader only
  bool marked = false;
  std::vector<std::string> tensors = {"a", "b"};
  std::vector<std::string> warm_up = {};     ///< called once before the first step
  std::chrono::microseconds compute{10'000}; ///< in each step
  double jitter = 0.01;                      ///< standard deviation of a computation
  /// Computes longer before the first call of this step, or moves its part of each transfer for longer.
  std::function<std::chrono::microseconds(int step, std::int32_t rank)> delay = {};
  std::function<std::chrono::microseconds(int step, std::int32_t rank)> copy_delay = {};
  /// A message to or from this host travels for longer.
  std::function<std::chrono::microseconds(int step, std::int32_t host)> link_delay = {};
};

/// Requests and schedules go through a tree of hosts, as with relays. The tensors go from each host to each other one.
class made_job {
public:
  static constexpr std::chrono::seconds start{1'700'000'000};
  static constexpr std::int32_t hosts_below_each = 8; ///< in the tree

  explicit made_job(job_plan plan) : plan_(std::move(plan)), random_(plan_.seed) {
    for (std::int32_t rank = 0; rank < plan_.ranks; ++rank)
      records_.push_back(empty_record(rank));
    hosts_ = host_of(records_.size() - 1) + 1;
    set_links(0);
    for (std::size_t host = 1; plan_.measured_clocks && host < hosts_; ++host)
      measure_clock(host);
    clocks_.assign(records_.size(), 0);
    lane_free_.assign(records_.size(), 0);
    for (const auto& tensor : plan_.warm_up)
      run({tensor}, -1);
    for (int step = 0; step < plan_.steps; ++step) {
      run(plan_.tensors, step);
      if (plan_.marked)
        mark(step);
    }
  }

  std::vector<event_record>& records() { return records_; }

  /// Runs one more step, with these tensors.
  void run(const std::vector<std::string>& tensors, int step) {
    const auto count = static_cast<double>(tensors.size());
    set_links(step);
    std::vector<std::vector<std::int64_t>> called;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      for (std::size_t rank = 0; rank < clocks_.size(); ++rank) {
        clocks_[rank] += noisy(nanoseconds(plan_.compute) / count, plan_.jitter);
        if (i == 0 && step >= 0 && plan_.delay)
          clocks_[rank] += nanoseconds(plan_.delay(step, static_cast<std::int32_t>(rank)));
      }
      called.push_back(clocks_);
      call(tensors[i], clocks_);
      if (!plan_.asynchronous)
        complete(tensors[i], called.back(), step);
    }
    for (std::size_t i = 0; plan_.asynchronous && i < tensors.size(); ++i)
      complete(tensors[i], called[i], step);
    for (auto& time : clocks_)
      time += noisy(1'000, 0.1);
  }

  void mark(int step) {
    for (std::size_t rank = 0; rank < clocks_.size(); ++rank)
      add(rank, 0, clocks_[rank], event_kind::step, "", static_cast<std::uint64_t>(step) + 1);
  }

  job_report report() const {
    std::vector<member_record> members;
    for (const auto& record : records_)
      members.push_back({&record, activity_in(record, 1, {})});
    return report_job(members, {});
  }

private:
  static std::int64_t nanoseconds(std::chrono::microseconds time) { return time.count() * 1'000; }

  std::size_t host_of(std::size_t rank) const {
    return rank / static_cast<std::size_t>(plan_.ranks_per_host);
  }

  event_record empty_record(std::int32_t rank) {
    event_record record;
    const auto host = host_of(static_cast<std::size_t>(rank));
    record.member = {7, 1, rank, plan_.ranks, rank, "host" + std::to_string(host)};
    record.process = 100 + static_cast<std::uint32_t>(rank);
    record.origin = {0, std::chrono::nanoseconds(0), start};
    record.names = {""};
    record.threads = {{"caller", 1, {}, 0}, {"loop", 2, {}, 0}, {"lane", 3, {}, 0}};
    record.threads[1].events.push_back(
        {ticks(static_cast<std::size_t>(rank), 0), 0, 0, event_kind::generation_begin, 0, 1,
         pair_field(static_cast<std::uint32_t>(plan_.ranks), static_cast<std::uint32_t>(rank))});
    return record;
  }

  /// The host above it in the tree.
  static std::size_t above(std::size_t host) { return (host - 1) / hosts_below_each; }
  std::size_t first_rank_of(std::size_t host) const {
    return host * static_cast<std::size_t>(plan_.ranks_per_host);
  }

  static std::int64_t clock_of(std::size_t host) { return static_cast<std::int64_t>(host) * 77'000'000'000; }
  std::uint64_t ticks(std::size_t rank, std::int64_t time) const {
    return static_cast<std::uint64_t>(time + 1'000'000 + clock_of(host_of(rank)));
  }

  /// The first rank of a host measures the clock of the first rank of the host above.
  void measure_clock(std::size_t host) {
    std::uniform_int_distribution<std::int64_t> error(-10'000, 10'000);
    const std::chrono::nanoseconds offset(clock_of(above(host)) - clock_of(host) + error(random_));
    records_[first_rank_of(host)].clock =
        recorded_clock{static_cast<std::int32_t>(first_rank_of(above(host))), offset,
                       std::chrono::nanoseconds(40'000 + links_[host]), std::chrono::seconds(1), 0};
  }

  void set_links(int step) {
    links_.assign(hosts_, 0);
    for (std::size_t host = 0; plan_.link_delay && host < hosts_; ++host)
      links_[host] = nanoseconds(plan_.link_delay(step, static_cast<std::int32_t>(host)));
  }

  /// Of a message between a host and the one above it.
  std::int64_t travel_time(std::size_t host) { return noisy(30'000, 0.1) + links_[host]; }

  std::int64_t noisy(double mean, double deviation) {
    std::normal_distribution<double> around(mean, mean * deviation);
    return static_cast<std::int64_t>(std::max(0.0, around(random_)));
  }

  void add(std::size_t rank, std::size_t thread, std::int64_t time, event_kind kind, const std::string& name,
           std::uint64_t first = 0, std::uint64_t second = 0) {
    auto& record = records_[rank];
    auto found = std::ranges::find(record.names, name);
    const auto index = static_cast<std::uint32_t>(found - record.names.begin());
    if (found == record.names.end())
      record.names.push_back(name);
    record.threads[thread].events.push_back({ticks(rank, time), index, 0, kind, 0, first, second});
  }

  void call(const std::string& tensor, const std::vector<std::int64_t>& called) {
    for (std::size_t rank = 0; rank < called.size(); ++rank)
      add(rank, 0, called[rank], plan_.fast_path ? event_kind::published : event_kind::submitted, tensor, 16,
          plan_.fast_path ? rounds_[tensor] : 0);
  }

  /// All ranks wait for the tensor now.
  void complete(const std::string& tensor, const std::vector<std::int64_t>& called, int step) {
    const auto last = std::ranges::max_element(called);
    for (std::size_t rank = 0; rank < called.size(); ++rank)
      add(rank, 0, clocks_[rank] += 200, event_kind::wait_begin, tensor);
    const auto settled = plan_.fast_path ? on_fast_path(*last, step) : on_lane(tensor, called, step);
    for (std::size_t rank = 0; rank < called.size(); ++rank) {
      add(rank, plan_.fast_path ? 0 : 2, settled[rank], event_kind::settled, tensor,
          plan_.fast_path ? rounds_[tensor] + 1 : 0);
      clocks_[rank] = std::max(clocks_[rank], settled[rank]) + 500;
      add(rank, 0, clocks_[rank], event_kind::wait_end, tensor);
    }
    ++rounds_[tensor];
  }

  std::int64_t copy_time(double mean, int step, std::size_t rank) {
    const auto own = noisy(mean, 0.02);
    return own + (step >= 0 && plan_.copy_delay
                      ? nanoseconds(plan_.copy_delay(step, static_cast<std::int32_t>(rank)))
                      : 0);
  }

  // Each rank copies what the others have published.
  std::vector<std::int64_t> on_fast_path(std::int64_t last, int step) {
    std::vector<std::int64_t> settled;
    for (std::size_t rank = 0; rank < clocks_.size(); ++rank)
      settled.push_back(std::max(last, clocks_[rank]) + copy_time(50'000, step, rank));
    return settled;
  }

  /// The requests of a host and of those below it arrive at the host above when the last one has come.
  struct last_request {
    std::int64_t time = 0;
    std::size_t rank =
        0; ///< known to the leader: the last one of its own host, or the first one of a host below
  };
  last_request request(const std::vector<std::int64_t>& called) {
    std::vector<last_request> of_host(hosts_);
    for (std::size_t rank = 0; rank < called.size(); ++rank)
      if (auto& last = of_host[host_of(rank)]; called[rank] >= last.time)
        last = {called[rank], rank};
    for (auto host = hosts_; host-- > 1;)
      if (const auto arrival = of_host[host].time + travel_time(host); arrival > of_host[above(host)].time)
        of_host[above(host)] = {arrival, first_rank_of(host)};
    return of_host[0];
  }

  /// When the schedule arrives, by host.
  std::vector<std::int64_t> schedule(std::int64_t ready) {
    std::vector<std::int64_t> arrival{ready};
    for (std::size_t host = 1; host < hosts_; ++host)
      arrival.push_back(arrival[above(host)] + travel_time(host));
    return arrival;
  }

  /// What the ranks of one host do together in a transfer.
  struct host_part {
    std::int64_t begin = 0; ///< of its last rank
    std::int64_t own = 0;   ///< of its slowest rank
  };

  /// When each host has what all hosts send at these times.
  std::vector<std::int64_t> exchange(const std::vector<std::int64_t>& sent) const {
    std::vector<std::int64_t> received(sent.size());
    for (std::size_t target = 0; target < sent.size(); ++target)
      for (std::size_t source = 0; source < sent.size(); ++source)
        received[target] =
            std::max(received[target],
                     sent[source] + (source == target ? 0 : 30'000 + links_[source] + links_[target]));
    return received;
  }

  // Each host sums up the parts of all hosts, and sends the sum. The ranks of a host leave the path together.
  std::vector<std::int64_t> move(const std::vector<host_part>& parts) const {
    std::vector<std::int64_t> sent;
    for (const auto& part : parts)
      sent.push_back(part.begin + part.own / 2);
    auto summed = exchange(sent);
    for (std::size_t host = 0; host < parts.size(); ++host)
      summed[host] += parts[host].own / 2;
    return exchange(summed);
  }

  std::vector<std::int64_t> on_lane(const std::string& tensor, const std::vector<std::int64_t>& called,
                                    int step) {
    const auto last = request(called);
    const auto ready = last.time + 5'000;
    add(0, 1, ready, event_kind::ready, tensor, 1, pair_field(0, static_cast<std::uint32_t>(last.rank)));
    const auto arrival = schedule(ready);
    std::vector<std::int64_t> begin, own, settled;
    std::vector<host_part> parts(hosts_);
    ++sequence_;
    for (std::size_t rank = 0; rank < clocks_.size(); ++rank) {
      auto& part = parts[host_of(rank)];
      const auto scheduled = arrival[host_of(rank)] + noisy(20'000, 0.1);
      add(rank, 1, scheduled, event_kind::scheduled, tensor, sequence_);
      begin.push_back(std::max(scheduled + noisy(5'000, 0.1), lane_free_[rank]));
      own.push_back(copy_time(200'000, step, rank));
      part = {std::max(part.begin, begin.back()), std::max(part.own, own.back())};
    }
    const auto ends = move(parts);
    for (std::size_t rank = 0; rank < clocks_.size(); ++rank) {
      const auto end = ends[host_of(rank)];
      add(rank, 2, begin[rank], event_kind::path_begin, "shm", sequence_, 16);
      add(rank, 2, end, event_kind::path_end, "shm", sequence_,
          static_cast<std::uint64_t>(end - begin[rank] - own[rank]));
      lane_free_[rank] = end;
      settled.push_back(end + 1'000);
    }
    return settled;
  }

  job_plan plan_;
  std::mt19937_64 random_;
  std::vector<event_record> records_;
  std::size_t hosts_ = 1;
  std::vector<std::int64_t> links_;              ///< by host
  std::vector<std::int64_t> clocks_, lane_free_; ///< by rank, in ns of one clock for all
  std::map<std::string, std::uint64_t> rounds_;
  std::uint64_t sequence_ = 0;
};

} // namespace farandole
