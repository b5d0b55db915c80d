// Derives the number of threads of each worker from the cores of a host. Without OMP_NUM_THREADS, numerical
// libraries start one thread per core in every process, so several workers on one host slow each other down.
#pragma once

#include <cstdint>
#include <string>

namespace farandole {

/// The number of cores that this process and its children may use. A fraction of a core is rounded up.
std::int32_t whole_usable_cores();

/// The value of OMP_NUM_THREADS for each of `workers` processes that share `cores`.
std::int32_t threads_of_each(std::int32_t cores, std::int32_t workers);

/// A notice for the user if workers outnumber cores and nothing limits their threads; empty otherwise.
std::string crowding_notice(std::int32_t cores, std::int32_t workers, bool threads_are_set);

} // namespace farandole
