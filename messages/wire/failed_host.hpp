// Hosts whose workers failed, as they are told to another process: a rendezvous that runs apart, or, by the
// journal, the launcher that is started again.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "messages/values/error.hpp"

namespace farandole {

/// By the clock on the wall: another process has another steady clock.
using wall_time = std::chrono::sys_time<std::chrono::milliseconds>;

struct failed_host {
  std::string name;
  std::int32_t times = 0; ///< it came on the blacklist
  wall_time deadline{};   ///< it gets no new workers; past: it gets them again
  bool for_good = false;  ///< and `until` says nothing

  friend bool operator==(const failed_host&, const failed_host&) = default;
};

/// Most of them: as many as there may be hosts.
inline constexpr std::size_t failed_host_limit = 65536;

/// For the journal. By name, ascending.
std::vector<std::byte> encode(const std::vector<failed_host>& hosts);
/// Checks that names ascend and numbers are in range.
expected<std::vector<failed_host>> decode_failed_hosts(std::span<const std::byte> bytes);

} // namespace farandole
