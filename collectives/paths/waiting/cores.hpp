// How many cores this process may really use: what its affinity allows, or less where a cgroup gives it less
// time.
#pragma once

#include <span>
#include <string>

namespace farandole {

/// At least a hundredth; 1.5 for a quota of 150 ms in 100 ms.
double usable_cores();

/// Cores that the text of a `cpu.max` file grants ("150000 100000"); 0 when it sets no limit or is not
/// understood.
double cores_granted(const std::string& cpu_max);

/// Moves the calling thread to any other core that its affinity allows, but to none of `taken`, and leaves
/// the affinity as it was. Does nothing where there is no such core.
void move_to_another_core(std::span<const int> taken = {});

} // namespace farandole
