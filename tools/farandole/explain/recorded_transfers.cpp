#include "tools/farandole/explain/recorded_transfers.hpp"

#include <algorithm>

#include "collectives/operation.hpp"
#include "messages/record/event_kinds.hpp"

namespace farandole {

namespace {

/// Each rank needs the data of every other, so none can end it before all have begun.
bool joins_all_ranks(std::uint8_t recorded) {
  const auto number = recorded & static_cast<std::uint8_t>(~adasum_detail);
  return number == static_cast<std::uint8_t>(operation::allreduce) ||
         number == static_cast<std::uint8_t>(operation::allgather);
}

bool is_about_transfers(const event& entry) {
  switch (entry.kind) {
  case event_kind::generation_begin:
  case event_kind::set_begin:
  case event_kind::path_begin:
  case event_kind::path_end:
    return true;
  default:
    return false;
  }
}

struct lane_event {
  const event* entry = nullptr;
  std::size_t thread = 0;
};

} // namespace

void transfer_names::follow(const event& entry) {
  if (entry.kind == event_kind::generation_begin) {
    generation_ = entry.first;
    epochs_.clear();
  } else if (entry.kind == event_kind::set_begin) {
    epochs_[entry.set] = entry.first;
  }
}

transfer_key transfer_names::key_of(const event& entry) const {
  const auto epoch = epochs_.find(entry.set);
  return {generation_, entry.set, epoch == epochs_.end() ? 0 : epoch->second, entry.first};
}

std::vector<recorded_transfer> transfers_in(const event_record& record) {
  std::vector<lane_event> events;
  for (std::size_t thread = 0; thread < record.threads.size(); ++thread)
    for (const auto& entry : record.threads[thread].events)
      if (is_about_transfers(entry))
        events.push_back({&entry, thread});
  std::ranges::stable_sort(events, {}, [](const lane_event& found) { return found.entry->ticks; });
  std::vector<recorded_transfer> transfers;
  std::map<std::size_t, std::pair<recorded_transfer, bool>> begun; // by thread
  transfer_names names;
  for (const auto& [entry, thread] : events) {
    names.follow(*entry);
    if (entry->kind == event_kind::path_begin)
      begun[thread] = {{names.key_of(*entry), entry->ticks, 0}, joins_all_ranks(entry->detail)};
    if (entry->kind != event_kind::path_end)
      continue;
    const auto found = begun.extract(thread);
    if (!found || !found.mapped().second || found.mapped().first.key.bundle != entry->first ||
        entry->detail != 0)
      continue;
    found.mapped().first.end = entry->ticks;
    transfers.push_back(found.mapped().first);
  }
  return transfers;
}

} // namespace farandole
