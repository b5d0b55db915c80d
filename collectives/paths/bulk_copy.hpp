// Copies between tensors and windows. On many machines, virtual ones above all, the C library copies a
// hundred kilobytes by one string instruction, and plain vector loads and stores are a tenth faster.
#pragma once

#include <cstddef>

namespace farandole {

/// As memcpy. What does not fill the cache gains most.
void bulk_copy(std::byte* to, const std::byte* from, std::size_t bytes);

} // namespace farandole
