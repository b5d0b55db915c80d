// One entry of the event record. Every thread of the runtime keeps its most recent events in a ring
// (event_ring.hpp); the timeline, dumps and reports are views of these rings. event_kinds.hpp is the table of
// the kinds.
#pragma once

#include <cstdint>

namespace farandole {

enum class event_kind : std::uint8_t {
  // Written by callers' threads.
  submitted = 1,
  published,
  cell_published,
  wait_begin,
  wait_end,
  // Written by whichever thread settles an operation.
  settled,
  // Written by the event loop.
  announced,
  request,
  ready,
  cut,
  scheduled,
  joined,
  stall,
  generation_begin,
  generation_end,
  set_begin,
  set_end,
  link_up,
  link_down,
  // Written by lanes.
  path_begin,
  path_end,
  // Written by callers' threads.
  step,
  // Written by the event loop.
  regroup,
  // Written into a trace by its writer.
  gap,
};

/// The kind decides the meaning of `detail`, `first` and `second`.
struct event {
  std::uint64_t ticks = 0; ///< see tick_clock
  std::uint32_t name = 0;  ///< index in the record's name table; 0: none, or the table was full
  std::uint16_t set = 0;   ///< id of the process set, modulo 2^16; 0: the global one
  event_kind kind{};
  std::uint8_t detail = 0;
  std::uint64_t first = 0;
  std::uint64_t second = 0;

  friend bool operator==(const event&, const event&) = default;
};
static_assert(sizeof(event) == 32);

} // namespace farandole
