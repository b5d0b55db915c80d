// The table of the events: for each kind its name, the component that writes it, its fields and its meaning.
// docs/events.md is generated from it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "messages/record/event.hpp"

namespace farandole {

struct event_row {
  event_kind kind;
  std::string_view text;   ///< its name in dumps: "path begin"
  std::string_view writer; ///< "lane"
  std::string_view name;   ///< what event::name stands for; empty: unused, like the following three
  std::string_view detail = {};
  std::string_view first = {};
  std::string_view second = {};
  std::string_view meaning;
  bool detailed = false; ///< written only while a timeline or trace runs
};

std::span<const event_row> event_table();
/// Null if there is no such kind: the value came from a damaged or newer record.
const event_row* find_event_row(event_kind kind);

/// The table as a page of Markdown.
std::string event_page();

/// Where `detail` is an operation: added to its number if the reduction is Adasum.
inline constexpr std::uint8_t adasum_detail = 0x40;

/// Two numbers below 2^32 in one field.
constexpr std::uint64_t pair_field(std::uint32_t high, std::uint32_t low) {
  return std::uint64_t{high} << 32 | low;
}
constexpr std::uint32_t high_half(std::uint64_t field) {
  return static_cast<std::uint32_t>(field >> 32);
}
constexpr std::uint32_t low_half(std::uint64_t field) {
  return static_cast<std::uint32_t>(field);
}

/// Why the fusion scheduler started a bundle: `detail` of event_kind::cut.
enum class cut_trigger : std::uint8_t {
  lane_idle = 1, ///< fewer bundles were in progress than may be
  full,          ///< no later tensor could be added
  flushed        ///< a whole bucket was ready, a member joined, or the set ended: nothing more to wait for
};
std::string_view to_string(cut_trigger trigger);

/// A phase of the way into the next generation, which may be the first one: `detail` of event_kind::regroup.
enum class regroup_phase : std::uint8_t {
  lost = 1,  ///< a member is lost: the rendezvous has said so, or has not contradicted this member in time
  waiting,   ///< this process asks the rendezvous for the next generation; others may not have left theirs
  connecting ///< the members of the next generation are known; links to them are being made
};
std::string_view to_string(regroup_phase phase);

} // namespace farandole
