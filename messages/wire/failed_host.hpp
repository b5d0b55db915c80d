// Hosts whose workers failed, in the form for another process: a rendezvous that runs apart from the launcher,
// or, by the journal, a restarted launcher.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "messages/values/error.hpp"

namespace farandole {

/// Wall-clock time, because steady clocks of different processes cannot be compared.
using wall_time = std::chrono::sys_time<std::chrono::milliseconds>;

struct failed_host {
  std::string name;
  std::int32_t times = 0; ///< how often it was blacklisted
  wall_time deadline{};   ///< until then it gets no new workers
  bool for_good = false;  ///< permanently blacklisted; `deadline` has no meaning

  friend bool operator==(const failed_host&, const failed_host&) = default;
};

/// Maximum length of the list: the maximum number of hosts.
inline constexpr std::size_t failed_host_limit = 65536;

/// For the journal. By name, ascending.
std::vector<std::byte> encode(const std::vector<failed_host>& hosts);
/// Checks that names ascend and numbers are in range.
expected<std::vector<failed_host>> decode_failed_hosts(std::span<const std::byte> bytes);

} // namespace farandole
