// Copies between tensors and windows. How they are fastest is a matter of the processor. Where it copies
// short strings as fast as vectors, the C library does it by string instructions, which do not read the lines
// that they overwrite; where it does not, plain vector loads and stores beat those a little.
#pragma once

#include <cstddef>
#include <cstdint>

namespace farandole {

enum class copy_way : std::uint8_t { vectors, library };

/// For this processor: the library where it has fast short `rep movsb` (Intel's manual, volume 2A, CPUID leaf
/// 7, EDX bit 4), else vectors.
copy_way best_copy_way();

/// As memcpy, the way that is best here. What does not fill the cache gains most.
void bulk_copy(std::byte* to, const std::byte* from, std::size_t bytes);
void bulk_copy(copy_way way, std::byte* to, const std::byte* from, std::size_t bytes);

} // namespace farandole
