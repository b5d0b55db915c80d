// The schedule of faults, drawn from a seed: the same seed gives the same faults. Victims are drawn as numbers,
// because the members at the time of a fault are not known in advance.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "messages/values/error.hpp"

namespace farandole::chaos {

enum class fault_kind : std::uint8_t { kill, stop, drain, host, rendezvous, link, agent, shell, cut };

/// The properties of a kind of fault. A new kind needs a row in the table and a case in `disturbance`.
struct fault_row {
  fault_kind kind;
  std::string_view name;
  std::string_view doc;
  bool hits_member;                            ///< hits one member, not the rendezvous of all members
  bool costs_member;                           ///< removes one member, temporarily or permanently
  std::chrono::milliseconds shortest, longest; ///< range of the duration
  bool needs_network = false;                  ///< the hosts must be network namespaces
  bool needs_agents = false; ///< and each must have an agent, which the launcher starts by a remote shell
};
std::span<const fault_row> fault_table();
const fault_row& row_of(fault_kind kind);

/// Parses a list such as "kill,stop". The error names the kinds that exist.
expected<std::vector<fault_kind>> parse_kinds(std::string_view list);

struct fault {
  fault_kind kind = fault_kind::kill;
  std::chrono::milliseconds at{};    ///< time since the beginning of the training
  std::chrono::milliseconds lasts{}; ///< time until the fault is reverted; 0: it is not reverted
  std::uint32_t victim = 0;          ///< index of the member, modulo the number of members

  friend bool operator==(const fault&, const fault&) = default;
};

struct schedule_options {
  std::uint64_t seed = 1;
  std::chrono::milliseconds duration = std::chrono::seconds{60};
  std::chrono::milliseconds every = std::chrono::seconds{10}; ///< on average
  std::vector<fault_kind> kinds;                              ///< not empty
};

/// Faults in order of time. The gaps between them are drawn from 0.5 to 1.5 times `every`.
std::vector<fault> draw_schedule(const schedule_options& options);

/// A line for the user, such as "    12.3 s  kill       member 7, counted around".
std::string to_text(const fault& injected);

} // namespace farandole::chaos
