// Writes a record that a test has made to a file, as a launcher does.
#pragma once

#include <catch2/catch.hpp>

#include <chrono>
#include <string>
#include <vector>

#include "messages/record/event_reader.hpp"
#include "messages/record/event_recorder.hpp"
#include "messages/record/event_region.hpp"

namespace farandole {

/// Each thread keeps its last `ring_events` events. The file is that of a copy which was made at this time after the origin.
inline void write_record_file(const std::string& path, const event_record& record, std::size_t ring_events,
                              std::chrono::nanoseconds copied) {
  const auto region = event_region::open(path, ring_events);
  REQUIRE(region);
  event_recorder recorder(*region, tick_clock(false));
  recorder.describe(record.member);
  if (record.clock)
    recorder.describe(*record.clock);
  auto& header = (*region)->header();
  header.origin_ticks = record.origin.ticks;
  header.origin_steady_ns = record.origin.steady.count();
  header.origin_system_ns = record.origin.system.count();
  header.copy.ticks = record.origin.ticks + static_cast<std::uint64_t>(copied.count());
  header.copy.steady_ns = (record.origin.steady + copied).count();
  header.copy.system_ns = (record.origin.system + copied).count();
  std::vector<std::uint32_t> names;
  for (const auto& name : record.names)
    names.push_back(recorder.intern(name));
  for (std::size_t i = 0; i < record.threads.size(); ++i) {
    auto ring = (*region)->ring(i);
    ring.header().thread = record.threads[i].thread;
    for (auto entry : record.threads[i].events) {
      entry.name = names[entry.name];
      ring.write(entry);
    }
  }
}

} // namespace farandole
