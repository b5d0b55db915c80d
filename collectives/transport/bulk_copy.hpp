// Copies between tensors and shared segments. The fastest method depends on the processor. If it copies short
// strings as fast as vectors, the C library uses string instructions, which do not read the cache lines that
// they overwrite. Otherwise plain vector loads and stores are slightly faster.
#pragma once

#include <cstddef>
#include <cstdint>

namespace farandole {

enum class copy_way : std::uint8_t { vectors, library };

/// The fastest method on this processor: `library` if it has fast short `rep movsb` (Intel's manual, volume
/// 2A, CPUID leaf 7, EDX bit 4), otherwise `vectors`.
copy_way best_copy_way();

/// Like memcpy, by the fastest method on this processor. Copies that do not fill the cache gain most.
void bulk_copy(std::byte* to, const std::byte* from, std::size_t bytes);
void bulk_copy(copy_way way, std::byte* to, const std::byte* from, std::size_t bytes);

} // namespace farandole
