// Tensors that wait too long, and for whom: some ranks have asked for them and others have not. Only a
// question; who asks it decides whether that is worth a line in the log or the end of the job.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace farandole {

struct stall {
  std::string name;
  std::chrono::nanoseconds waited{0};
  std::vector<std::int32_t> missing; ///< global ranks, ascending; those that have joined are not missed

  friend bool operator==(const stall&, const stall&) = default;
};

/// For people: one line a missing rank, "3: [grad.a, grad.b, …]", at most six names each; names that have
/// waited longer than `blamed` (never, if zero) are marked "!".
std::string describe(std::span<const stall> stalls, std::chrono::nanoseconds blamed);

} // namespace farandole
