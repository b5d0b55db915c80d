#include "messages/record/event_reader.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

namespace farandole {

namespace {

error malformed(std::string reason) {
  return {error_kind::invalid_argument, "this is no event record: " + std::move(reason)};
}

template <std::size_t size>
std::string text_of(const std::array<std::atomic<char>, size>& source) {
  std::string text;
  for (const auto& letter : source) {
    const char value = letter.load(std::memory_order_relaxed);
    if (value == '\0')
      break;
    text.push_back(value);
  }
  return text;
}

/// Nothing if no clock was measured, or if the owner is writing.
std::optional<recorded_clock> clock_in(const event_region_header& header) {
  const auto bound = header.clock_bound_ns.load(std::memory_order_acquire);
  const recorded_clock clock{
      header.clock_peer.load(std::memory_order_relaxed),
      std::chrono::nanoseconds(header.clock_offset_ns.load(std::memory_order_relaxed)),
      std::chrono::nanoseconds(bound),
      std::chrono::nanoseconds(header.clock_measured_ns.load(std::memory_order_relaxed)),
      header.clock_drift_ppb.load(std::memory_order_relaxed)};
  std::atomic_thread_fence(std::memory_order_acquire);
  if (bound <= 0 || header.clock_bound_ns.load(std::memory_order_relaxed) != bound)
    return std::nullopt;
  return clock;
}

} // namespace

const std::string& event_record::name(std::uint32_t index) const {
  static const std::string none;
  return index < names.size() ? names[index] : none;
}

// The memory is only read: rings and tables take references that are not const because their owners write through them.
expected<event_record> read_event_record(std::span<const std::byte> memory) {
  if (memory.size() < sizeof(event_region_header))
    return malformed("it has only " + std::to_string(memory.size()) + " bytes");
  if (reinterpret_cast<std::uintptr_t>(memory.data()) % alignof(event_region_header) != 0)
    return malformed("its memory is not aligned");
  auto* base = const_cast<std::byte*>(memory.data());
  auto& header = *reinterpret_cast<event_region_header*>(base);
  if (header.magic.load(std::memory_order_acquire) != event_region_magic)
    return malformed("it does not begin with the mark of one");
  if (const auto version = header.version.load(std::memory_order_relaxed); version != event_region_version)
    return error{error_kind::invalid_argument, "the event record has version " + std::to_string(version) +
                                                   "; this program reads version " +
                                                   std::to_string(event_region_version)};
  const std::size_t ring_events = header.ring_events.load(std::memory_order_relaxed);
  if (ring_events == 0 || ring_events > ring_events_limit || !std::has_single_bit(ring_events))
    return malformed("its rings have " + std::to_string(ring_events) + " slots");
  const event_region_layout layout{ring_events};
  if (memory.size() != layout.bytes())
    return malformed("it has " + std::to_string(memory.size()) + " bytes instead of " +
                     std::to_string(layout.bytes()));

  event_record record;
  record.member = {
      header.job.load(std::memory_order_relaxed),        header.generation.load(std::memory_order_relaxed),
      header.rank.load(std::memory_order_relaxed),       header.size.load(std::memory_order_relaxed),
      header.local_rank.load(std::memory_order_relaxed), text_of(header.host)};
  record.clock = clock_in(header);
  record.process = header.process.load(std::memory_order_relaxed);
  record.uses_counter = header.uses_counter.load(std::memory_order_relaxed) != 0;
  record.origin = {header.origin_ticks.load(std::memory_order_relaxed),
                   std::chrono::nanoseconds(header.origin_steady_ns.load(std::memory_order_relaxed)),
                   std::chrono::nanoseconds(header.origin_system_ns.load(std::memory_order_relaxed))};
  if (const auto ticks = header.copy.ticks.load(std::memory_order_relaxed); ticks != 0)
    record.copied = {{ticks, std::chrono::nanoseconds(header.copy.steady_ns.load(std::memory_order_relaxed)),
                      std::chrono::nanoseconds(header.copy.system_ns.load(std::memory_order_relaxed))},
                     header.copy.slot.load(std::memory_order_relaxed),
                     text_of(header.copy.ending),
                     header.copy.told_to_end.load(std::memory_order_relaxed) != 0,
                     header.copy.process.load(std::memory_order_relaxed),
                     header.copy.state.load(std::memory_order_relaxed)};
  record.ringless = header.ringless.load(std::memory_order_relaxed);
  record.refused_names = header.names.refused.load(std::memory_order_relaxed);

  auto* slots = reinterpret_cast<name_slot*>(base + event_region_layout::header_bytes);
  auto* text = base + event_region_layout::header_bytes + event_region_layout::name_slots * sizeof(name_slot);
  const name_table names(header.names, {slots, event_region_layout::name_slots},
                         {reinterpret_cast<char*>(text), event_region_layout::name_bytes});
  record.names.resize(event_region_layout::name_slots + 1);
  std::size_t copied_bytes = 0;
  for (std::uint32_t index = 1; index < record.names.size(); ++index) {
    const auto name = names.at(index);
    copied_bytes += name.size();
    // In a sound table the texts do not overlap.
    if (copied_bytes > event_region_layout::name_bytes)
      return malformed("its names overlap");
    record.names[index] = name;
  }

  for (std::size_t i = 0; i < event_ring_limit; ++i) {
    auto* start = base + layout.ring_offset(i);
    auto& ring_header = *reinterpret_cast<event_ring_header*>(start);
    const event_ring ring(ring_header,
                          {reinterpret_cast<event_words*>(start + sizeof(event_ring_header)), ring_events});
    auto excerpt = ring.read(0);
    if (excerpt.end == 0)
      continue;
    // A copy holds zeros in the place of events that were overwritten while they were copied.
    excerpt.dropped +=
        std::erase_if(excerpt.events, [](const event& entry) { return entry.kind == event_kind{}; });
    record.threads.push_back({text_of(ring_header.thread_name),
                              ring_header.thread.load(std::memory_order_relaxed), std::move(excerpt.events),
                              excerpt.dropped});
  }
  return record;
}

} // namespace farandole
