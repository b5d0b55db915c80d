// The events of all threads of a record in the order of their times.
#pragma once

#include <cstdint>
#include <vector>

#include "messages/record/event_reader.hpp"

namespace farandole {

/// An event that remains in its record.
struct thread_event {
  std::uint64_t ticks = 0;
  const event* entry = nullptr;
  std::uint32_t thread = 0; ///< position in the record's threads
};

/// Events of one thread with the same time keep their order.
std::vector<thread_event> events_by_time(const event_record& record);

} // namespace farandole
