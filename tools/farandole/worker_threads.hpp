// What the cores of a host mean for the threads of each worker: numerical libraries start a thread for each
// core in every process unless OMP_NUM_THREADS says otherwise, so several workers on one host slow each other
// down.
#pragma once

#include <cstdint>
#include <string>

namespace farandole {

/// Cores that this process and what it starts may use, where a part of one counts as one.
std::int32_t whole_usable_cores();

/// OMP_NUM_THREADS for each of `workers` processes that share `cores`.
std::int32_t threads_of_each(std::int32_t cores, std::int32_t workers);

/// What to tell people where workers outnumber cores and nothing limits their threads; empty otherwise.
std::string crowding_notice(std::int32_t cores, std::int32_t workers, bool threads_are_set);

} // namespace farandole
