// Reads a record from bytes that may have come from anywhere: the memory of a process that runs, is stopped or has died,
// or a file. Nothing in the bytes is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "messages/record/event.hpp"
#include "messages/record/event_copy.hpp"
#include "messages/record/event_recorder.hpp"
#include "messages/record/tick_clock.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// The events of one thread.
struct recorded_thread {
  std::string name;
  std::uint32_t thread = 0;  ///< thread id in the process's own namespace
  std::vector<event> events; ///< oldest first
  std::uint64_t dropped = 0; ///< older events that were overwritten
};

/// A copy of a record.
struct event_record {
  /// If it was read from a file that a launcher wrote (event_copy.hpp): what the launcher knew then.
  std::optional<record_copy> copied;
  recorded_member member;
  std::optional<recorded_clock> clock; ///< of another member, if this one has measured it
  std::uint32_t process = 0;
  bool uses_counter = false;
  tick_reading origin;
  std::vector<recorded_thread> threads; ///< those that have recorded something
  std::vector<std::string> names;       ///< by index; [0] is empty
  std::uint64_t refused_names = 0;
  std::uint64_t ringless = 0; ///< threads for which there was no ring

  /// Empty if there is no such name.
  const std::string& name(std::uint32_t index) const;
};

/// Copies the record. `memory` may change meanwhile. `invalid_argument` if it is no record, of another version, or has
/// the wrong size.
expected<event_record> read_event_record(std::span<const std::byte> memory);

} // namespace farandole
