#include "tools/farandole/chaos/timeline.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

namespace farandole::chaos {

namespace {

/// The number of steps that a roll-back has undone, by the first of these counters that the state has.
std::optional<std::int64_t> taken_back(const worker_event& before, const worker_event& after) {
  for (const char* name : {"step", "batch"}) {
    const auto had = before.counters.find(name), has = after.counters.find(name);
    if (had != before.counters.end() && has != after.counters.end())
      return had->second - has->second;
  }
  return std::nullopt;
}

template <class Value>
void raise_to(std::optional<Value>& highest, Value value) {
  highest = highest ? std::max(*highest, value) : value;
}

} // namespace

std::optional<worker_event> parse_event(std::string_view line) {
  try { // JSON is a subset of YAML; yaml-cpp reports errors by exceptions
    const auto node = YAML::Load(std::string(line));
    if (!node.IsMap() || !node["event"] || !node["ms"])
      return std::nullopt;
    worker_event event;
    event.text = node["event"].as<std::string>();
    event.ms = node["ms"].as<double>();
    event.pid = node["pid"].as<std::int64_t>();
    event.slot = node["slot"].as<std::int32_t>();
    event.generation = node["generation"].as<std::uint64_t>();
    if (node["rank"])
      event.rank = node["rank"].as<std::int32_t>();
    if (node["host"])
      event.host = node["host"].as<std::string>();
    if (node["counters"])
      event.counters = node["counters"].as<std::map<std::string, std::int64_t>>();
    return event;
  } catch (const YAML::Exception&) {
    return std::nullopt;
  }
}

void timeline::add(const worker_event& event) {
  if (event.text == "training")
    generation_ = std::max(generation_, event.generation);
  events_.push_back(event);
}

std::vector<seat> timeline::members() const {
  std::map<std::int32_t, seat> by_slot;
  std::map<std::int32_t, std::int32_t> ranks;
  for (const auto& event : events_) {
    if (event.generation == generation_ && event.text == "generation")
      ranks[event.slot] = event.rank;
    else if (event.generation == generation_ && event.text == "training")
      by_slot[event.slot] = {event.slot, ranks[event.slot], event.pid, event.generation, event.host};
    else if (event.text == "left" || event.text == "ended" || event.text == "reset")
      by_slot.erase(event.slot);
  }
  std::vector<seat> members;
  for (const auto& [slot, entry] : by_slot)
    members.push_back(entry);
  std::sort(members.begin(), members.end(), [](auto& a, auto& b) { return a.rank < b.rank; });
  return members;
}

recovery timeline::recovery_of(const cause& cause) const {
  recovery result;
  std::set<std::int32_t> survivors;
  std::map<std::int32_t, const worker_event*> lost;
  std::optional<double> told, again;
  std::uint64_t next = 0;
  bool any_lost = false;
  for (const auto& event : events_) {
    if (event.slot == cause.slot)
      continue;
    const bool before = event.generation == cause.generation;
    const bool within = event.ms >= cause.at_ms && event.ms < cause.until_ms;
    const bool tells = event.text == "lost" || (event.text == "changed" && cause.changes_members);
    if (before && event.text == "training")
      survivors.insert(event.slot);
    if (before && within && tells)
      raise_to(told, event.ms);
    if (before && within && event.text == "lost") {
      any_lost = true;
      lost[event.slot] = &event;
    } else if (event.text == "restored" && lost.contains(event.slot)) {
      if (const auto steps = taken_back(*lost[event.slot], event))
        raise_to(result.steps, *steps);
      lost.erase(event.slot);
    }
    if (event.generation > cause.generation && event.text == "training" && told) {
      next = next == 0 ? event.generation : std::min(next, event.generation);
      if (event.generation == next && survivors.contains(event.slot))
        raise_to(again, event.ms);
    }
  }
  if (told)
    result.told_ms = *told - cause.at_ms;
  if (told && again)
    result.regrouped_ms = *again - *told;
  if (!any_lost)
    result.steps = 0; // no member has rolled back
  return result;
}

std::int64_t timeline::commits_between(double from_ms, double to_ms) const {
  std::map<std::int32_t, std::int64_t> counts;
  std::int64_t limit = 0;
  for (const auto& event : events_)
    if (event.text == "commit" && event.ms >= from_ms && event.ms < to_ms)
      limit = std::max(limit, ++counts[event.slot]);
  return limit;
}

std::size_t timeline::workers_with(std::string_view text) const {
  std::set<std::int32_t> slots;
  for (const auto& event : events_)
    if (event.text == text)
      slots.insert(event.slot);
  return slots.size();
}

} // namespace farandole::chaos
