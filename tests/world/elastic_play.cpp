#include "tests/world/elastic_play.hpp"

#include <algorithm>

#include "tests/world/dice.hpp"

namespace farandole::testing {

namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t play_stream = 401;

struct fault_row {
  fault_kind kind;
  std::string_view name;
  std::uint64_t weight; ///< how often it is drawn
  std::uint64_t shortest_ms;
  std::uint64_t longest_ms;
};

constexpr fault_row rows[] = {
    {fault_kind::link_lost, "link lost", 4, 0, 0},
    {fault_kind::delay, "delay", 2, 5, 2000},
    {fault_kind::reorder, "reorder", 2, 5, 500},
    {fault_kind::partition, "partition", 2, 10, 60'000},
    {fault_kind::partition_one_way, "one-way partition", 2, 10, 60'000},
    {fault_kind::death, "death", 8, 0, 0},
    {fault_kind::slow_rank, "slow rank", 1, 0, 0},
    {fault_kind::clock_jump, "clock jump", 1, 100, 40'000},
    {fault_kind::discovery_lies, "discovery lies", 1, 500, 10'000},
    {fault_kind::discovery_flaps, "discovery flaps", 1, 500, 10'000},
    {fault_kind::rendezvous_death, "rendezvous death", 6, 10, 40'000},
    {fault_kind::disk_full, "full disk", 3, 10, 20'000},
};
static_assert(std::size(rows) == fault_kind_count);

fault_kind drawn_kind(dice& draw) {
  std::uint64_t all = 0;
  for (const auto& row : rows)
    all += row.weight;
  auto number = draw.below(all);
  for (const auto& row : rows) {
    if (number < row.weight)
      return row.kind;
    number -= row.weight;
  }
  return fault_kind::death;
}

bool can_happen(fault_kind kind, bool script, bool apart) {
  switch (kind) {
  case fault_kind::discovery_lies:
  case fault_kind::discovery_flaps:
    return script;
  case fault_kind::rendezvous_death:
  case fault_kind::disk_full:
    return apart;
  default:
    return true;
  }
}

// Some faults come close together: what a job makes of the second depends on how far it is with the first.
std::vector<fault> drawn_faults(dice& draw, bool script, bool apart) {
  constexpr std::uint64_t job_messages = 500;
  std::vector<fault> all(draw.below(5));
  std::uint64_t last = 0;
  for (auto& one : all) {
    do
      one.kind = drawn_kind(draw);
    while (!can_happen(one.kind, script, apart));
    const auto& row = rows[static_cast<std::size_t>(one.kind)];
    one.at_message = last != 0 && draw.one_in(2) ? last + draw.below(60) : draw.below(job_messages);
    one.lasts = milliseconds(row.shortest_ms);
    // Short ones are as likely as long ones.
    if (row.longest_ms > row.shortest_ms) {
      auto longest = row.longest_ms >> draw.below(8);
      one.lasts += milliseconds(draw.below(std::max<std::uint64_t>(longest, 1)));
    }
    one.pick = draw.next();
    last = one.at_message;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const fault& a, const fault& b) { return a.at_message < b.at_message; });
  return all;
}

std::vector<host_slots> drawn_hosts(dice& draw, std::int32_t least_slots) {
  std::vector<host_slots> hosts;
  std::int32_t slots = 0;
  for (char name = 'a'; slots < least_slots || (hosts.size() < 4 && draw.one_in(3)); ++name) {
    hosts.push_back({std::string("host-") + name, 1 + static_cast<std::int32_t>(draw.below(2))});
    slots += hosts.back().slots;
  }
  return hosts;
}

// A host comes, goes, or has another number of slots.
std::vector<host_slots> changed(dice& draw, std::vector<host_slots> hosts, char name) {
  const auto at = static_cast<std::size_t>(draw.below(hosts.size()));
  if (draw.one_in(3) && hosts.size() > 1)
    hosts.erase(hosts.begin() + static_cast<std::ptrdiff_t>(at));
  else if (draw.one_in(3))
    hosts[at].slots = 1 + static_cast<std::int32_t>(draw.below(3));
  else
    hosts.push_back({std::string("host-") + name, 1 + static_cast<std::int32_t>(draw.below(2))});
  return hosts;
}

} // namespace

std::string_view to_string(fault_kind kind) {
  return rows[static_cast<std::size_t>(kind)].name;
}

std::string to_string(const fault& what) {
  return std::string(to_string(what.kind)) + " at message " + std::to_string(what.at_message) +
         (what.lasts.count() == 0 ? "" : ", for " + std::to_string(what.lasts.count()) + " ms");
}

elastic_options elastic_options::drawn(std::uint64_t seed) {
  dice draw(seed, play_stream);
  elastic_options options;
  options.seed = seed;
  options.processes = 2 + static_cast<std::int32_t>(draw.below(3));
  options.fewest = 1 + static_cast<std::int32_t>(draw.below(static_cast<std::uint64_t>(options.processes)));
  options.most = options.processes + static_cast<std::int32_t>(draw.below(3));
  options.cooldown = draw.one_in(2);
  options.hosts.push_back({milliseconds(0), drawn_hosts(draw, options.processes)});
  const bool script = !draw.one_in(4);
  if (script)
    for (auto changes = 1 + draw.below(3); changes > 0; --changes)
      options.hosts.push_back(
          {options.hosts.back().at + milliseconds(100 + draw.below(6000)),
           changed(draw, options.hosts.back().hosts, static_cast<char>('p' + options.hosts.size()))});
  options.rounds = 4 + static_cast<std::int32_t>(draw.below(5));
  options.tensors = 1 + static_cast<std::int32_t>(draw.below(3));
  options.commit_every = 1 + static_cast<std::int32_t>(draw.below(3));
  options.sets_every = draw.one_in(3) ? 1 : 0;
  // From jobs that are over before discovery answers again to such as last for some of its answers.
  const std::uint64_t paces[] = {300, 30'000, 600'000};
  options.think_us = paces[draw.below(3)];
  options.latency_us = draw.one_in(3) ? 500 : 50;
  options.jitter_us = draw.one_in(3) ? 3000 : 200;
  options.delayed = draw.one_in(2) ? 50 : 5;
  options.relays = draw.one_in(3);
  options.apart = draw.one_in(2);
  options.faults = drawn_faults(draw, script, options.apart);
  return options;
}

} // namespace farandole::testing
