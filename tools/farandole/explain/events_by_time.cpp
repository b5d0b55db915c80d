#include "tools/farandole/explain/events_by_time.hpp"

#include <algorithm>

namespace farandole {

// The events of one thread are sorted, unless the record is damaged, so merging them takes less time than sorting all.
std::vector<thread_event> events_by_time(const event_record& record) {
  std::vector<thread_event> events;
  std::size_t count = 0;
  for (const auto& thread : record.threads)
    count += thread.events.size();
  events.reserve(count);
  for (std::uint32_t thread = 0; thread < record.threads.size(); ++thread) {
    const auto begin = static_cast<std::ptrdiff_t>(events.size());
    for (const auto& entry : record.threads[thread].events)
      events.push_back({entry.ticks, &entry, thread});
    if (!std::ranges::is_sorted(events.begin() + begin, events.end(), {}, &thread_event::ticks))
      std::ranges::stable_sort(events.begin() + begin, events.end(), {}, &thread_event::ticks);
    std::ranges::inplace_merge(events, events.begin() + begin, {}, &thread_event::ticks);
  }
  return events;
}

} // namespace farandole
