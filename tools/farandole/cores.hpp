// How many cores the processes of this host may use, and what that means for the threads of each worker:
// numerical libraries start a thread for each core in every process unless OMP_NUM_THREADS says otherwise, so
// several workers on one host slow each other down.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace farandole {

/// Cores that a cgroup's quota comes to, rounded up: from the content of cpu.max ("200000 100000", cgroup
/// v2). Empty where there is no limit, or the text is none.
std::optional<std::int32_t> cores_of_quota(std::string_view cpu_max);

/// Cores that this process may use: those of its affinity mask, and no more than its cgroups' quotas allow.
/// At least 1.
std::int32_t usable_cores();

/// OMP_NUM_THREADS for each of `workers` processes that share `cores`.
std::int32_t threads_of_each(std::int32_t cores, std::int32_t workers);

/// What to tell people where workers outnumber cores and nothing limits their threads; empty otherwise.
std::string crowding_notice(std::int32_t cores, std::int32_t workers, bool threads_are_set);

} // namespace farandole
