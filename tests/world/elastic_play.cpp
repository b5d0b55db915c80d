#include "tests/world/elastic_play.hpp"

#include <algorithm>

#include "tests/world/dice.hpp"

namespace farandole::testing {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t play_stream = 401;
constexpr std::uint64_t rare_stream = 409; // a separate stream, so that it does not change the other draws

enum class draw_group : std::uint8_t { usual, rare };

struct fault_row {
  fault_kind kind;
  std::string_view name;
  std::uint64_t weight; ///< how often it is drawn
  std::uint64_t shortest_ms;
  std::uint64_t longest_ms;
  draw_group group = draw_group::usual;
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
    {fault_kind::stopped_process, "stopped process", 6, 5, 60'000, draw_group::rare},
    {fault_kind::half_open_link, "half-open link", 3, 10, 30'000, draw_group::rare},
    {fault_kind::corrupted_record, "corrupted record", 3, 0, 0, draw_group::rare},
    {fault_kind::disturbed_handshake, "disturbed handshake", 3, 10, 15'000, draw_group::rare},
    {fault_kind::impostor, "impostor", 3, 10, 40'000, draw_group::rare},
    {fault_kind::strangers, "strangers", 2, 100, 5'000, draw_group::rare},
};
static_assert(std::size(rows) == fault_kind_count);

fault_kind drawn_kind(dice& draw, draw_group group) {
  std::uint64_t all = 0;
  for (const auto& row : rows)
    all += row.group == group ? row.weight : 0;
  auto number = draw.below(all);
  for (const auto& row : rows) {
    if (row.group != group)
      continue;
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
  case fault_kind::impostor:
    return apart;
  default:
    return true;
  }
}

// Some faults follow each other closely: the effect of the second depends on the progress after the first.
std::vector<fault> drawn_faults(dice& draw, draw_group group, std::uint64_t count, bool script, bool apart) {
  constexpr std::uint64_t job_messages = 500;
  std::vector<fault> all(count);
  std::uint64_t last = 0;
  for (auto& injected : all) {
    do
      injected.kind = drawn_kind(draw, group);
    while (!can_happen(injected.kind, script, apart));
    const auto& row = rows[static_cast<std::size_t>(injected.kind)];
    injected.at_message = last != 0 && draw.one_in(2) ? last + draw.below(60) : draw.below(job_messages);
    injected.lasts = milliseconds(row.shortest_ms);
    // Short durations are as likely as long ones.
    if (row.longest_ms > row.shortest_ms) {
      auto longest = row.longest_ms >> draw.below(8);
      injected.lasts += milliseconds(draw.below(std::max<std::uint64_t>(longest, 1)));
    }
    injected.pick = draw.next();
    last = injected.at_message;
  }
  return all;
}

void sort_by_message(std::vector<fault>& all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const fault& a, const fault& b) { return a.at_message < b.at_message; });
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

// A host is added or removed, or gets another number of slots.
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

// The timeouts are short, so that many stops exceed them.
void draw_signs_of_life(dice& draw, elastic_options& options) {
  const bool stops = std::ranges::any_of(
      options.faults, [](const fault& injected) { return injected.kind == fault_kind::stopped_process; });
  options.heartbeats = draw.one_in(stops ? 2 : 6);
  if (!options.heartbeats)
    return;
  constexpr seconds operation_timeouts[] = {seconds(5), seconds(10), seconds(30)};
  constexpr seconds stuck_timeouts[] = {seconds(0), seconds(0), seconds(1), seconds(4)};
  options.operation_timeout = operation_timeouts[draw.below(std::size(operation_timeouts))];
  options.stuck_timeout = stuck_timeouts[draw.below(std::size(stuck_timeouts))];
}

} // namespace

std::string_view to_string(fault_kind kind) {
  return rows[static_cast<std::size_t>(kind)].name;
}

std::string to_string(const fault& injected) {
  return std::string(to_string(injected.kind)) + " at message " + std::to_string(injected.at_message) +
         (injected.lasts.count() == 0 ? "" : ", for " + std::to_string(injected.lasts.count()) + " ms");
}

elastic_options elastic_options::drawn(std::uint64_t seed) {
  dice draw(seed, play_stream);
  elastic_options options;
  options.seed = seed;
  options.processes = 2 + static_cast<std::int32_t>(draw.below(3));
  options.fewest = 1 + static_cast<std::int32_t>(draw.below(static_cast<std::uint64_t>(options.processes)));
  options.limit = options.processes + static_cast<std::int32_t>(draw.below(3));
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
  // The paces range from jobs that end before the second answer of discovery to jobs that last for several
  // answers.
  const std::uint64_t paces[] = {300, 30'000, 600'000};
  options.think_us = paces[draw.below(3)];
  options.latency_us = draw.one_in(3) ? 500 : 50;
  options.jitter_us = draw.one_in(3) ? 3000 : 200;
  options.delayed = draw.one_in(2) ? 50 : 5;
  options.relays = draw.one_in(3);
  options.apart = draw.one_in(2);
  options.faults = drawn_faults(draw, draw_group::usual, draw.below(5), script, options.apart);

  // Most jobs have none of these options, and few have several.
  dice rare(seed, rare_stream);
  options.one_machine = rare.one_in(6);
  options.own_clocks = rare.one_in(6);
  // There are so few places that a few unauthenticated peers fill them.
  options.handshakes.connections = 16;
  options.handshakes.share = 8;
  options.handshakes.shaking = 4;
  if (rare.one_in(4))
    for (auto& injected : drawn_faults(rare, draw_group::rare, 1 + rare.below(2), script, options.apart))
      options.faults.push_back(injected);
  sort_by_message(options.faults);
  draw_signs_of_life(rare, options);
  options.inline_tensors = !rare.one_in(3);
  options.callers_run = rare.one_in(2);
  return options;
}

bool elastic_options::tells_processes_apart() const {
  return one_machine || own_clocks || stops_processes ||
         std::any_of(faults.begin(), faults.end(),
                     [](const fault& injected) { return injected.kind == fault_kind::stopped_process; });
}

} // namespace farandole::testing
