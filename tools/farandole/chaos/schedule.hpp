// Which faults hit a job, and when: drawn from a seed, so that the same seed gives the same faults. Who is
// hit is drawn as a number, since who is there at that moment is not known before.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "messages/values/error.hpp"

namespace farandole::chaos {

enum class fault_kind : std::uint8_t { kill, stop, drain, host, rendezvous, link };

/// Everything that a schedule needs to know of a kind. A new one is a row here, and a line where faults are
/// carried out.
struct fault_row {
  fault_kind kind;
  std::string_view name;
  std::string_view doc;
  bool hits_member;                            ///< and not what they have in common
  bool costs_member;                           ///< one member fewer, for a while or for good
  std::chrono::milliseconds shortest, longest; ///< how long it lasts
};
std::span<const fault_row> fault_table();
const fault_row& row_of(fault_kind kind);

/// "kill,stop"; the error names those that there are.
expected<std::vector<fault_kind>> parse_kinds(std::string_view list);

struct fault {
  fault_kind kind = fault_kind::kill;
  std::chrono::milliseconds at{};    ///< after the training has begun
  std::chrono::milliseconds lasts{}; ///< until it is taken back; 0: it is not
  std::uint32_t victim = 0;          ///< the member at this place, counted around

  friend bool operator==(const fault&, const fault&) = default;
};

struct schedule_options {
  std::uint64_t seed = 1;
  std::chrono::milliseconds duration = std::chrono::seconds{60};
  std::chrono::milliseconds every = std::chrono::seconds{10}; ///< on average
  std::vector<fault_kind> kinds;                              ///< not empty
};

/// In order of time. The gaps are half of `every` to one and a half.
std::vector<fault> draw_schedule(const schedule_options& options);

/// "  12.3 s  kill   member 7 (counted around)": a line for people.
std::string to_text(const fault& injected);

} // namespace farandole::chaos
