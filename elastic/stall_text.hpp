// Texts for users about stalled tensors: which ranks have not submitted them, and what follows from that about the cause.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "messages/wire/stalls.hpp"

namespace farandole {

/// One line for each missing rank, "3: [grad.a, grad.b, …]", with at most six names. Names that have waited longer than
/// `blamed` are marked "!"; none if `blamed` is zero.
std::string describe(std::span<const stalled_tensor> tensors, std::chrono::nanoseconds blamed);

/// Lines that state what the missing ranks do instead, as far as the tensors tell: which two wait for each other, and
/// which have called none of them. `tensors`: those of one process set, longest first.
std::vector<std::string> causes_of(std::span<const stalled_tensor> tensors);

/// The stalled tensors of one process set.
struct stalled_set {
  std::uint32_t id = 0;                ///< for users; 0: the global set
  std::vector<stalled_tensor> tensors; ///< longest first
};

/// The report of all stalls of a job. `count`: of all stalled tensors, also of those that are not in `sets`. `setting`:
/// citation of the warning time. For `blamed` see describe().
std::string stall_warning(std::span<const stalled_set> sets, std::size_t count, std::string_view setting,
                          std::chrono::nanoseconds blamed);

/// The report that the stall is over, which lasted for so long.
std::string stall_end_notice(std::chrono::nanoseconds duration, std::string_view setting);

} // namespace farandole
