#include "tools/farandole/trace/profiler_event.hpp"

#include <algorithm>
#include <charconv>

namespace farandole {

namespace {

/// A trace is of one process; events of other numbers are those of its devices.
constexpr std::size_t process_limit = 256;

} // namespace

void add_to_facts(profiler_facts& facts, const profiler_event& entry) {
  facts.first = facts.events == 0 ? entry.time : std::min(facts.first, entry.time);
  const auto end = entry.time + entry.duration;
  facts.last = facts.events == 0 ? end : std::max(facts.last, end);
  ++facts.events;
  std::uint32_t process = 0;
  const auto* digits_end = entry.process.data() + entry.process.size();
  const auto parsed = std::from_chars(entry.process.data(), digits_end, process);
  if (parsed.ec == std::errc() && parsed.ptr == digits_end && facts.processes.size() < process_limit)
    facts.processes.insert(process);
}

} // namespace farandole
