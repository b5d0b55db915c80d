// Reading, writing and allocating all bytes of a range of a file. The calls of the system may transfer a part only, and
// may be interrupted by a signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace farandole {

/// Reads bytes from this offset on until the target is full. False with errno on a failure; ENODATA if the file ends
/// before. Blocks the calling thread as pread() does.
bool read_at(int file, std::uint64_t offset, std::span<std::byte> target);

/// Writes all bytes from this offset on. False with errno on a failure. Blocks the calling thread as pwrite() does.
bool write_at(int file, std::uint64_t offset, std::span<const std::byte> source);

/// Writes all bytes at the position of the file, or at its end if it was opened with O_APPEND. False with errno on a
/// failure. Blocks the calling thread as write() does.
bool write_all(int file, std::span<const std::byte> source);

/// Allocates the blocks of a range, so that a process that maps the file is not killed when it writes to them and the disk
/// is full. The file grows to the end of the range. False with errno on a failure. Blocks the calling thread as
/// posix_fallocate() does.
bool allocate_at(int file, std::uint64_t offset, std::uint64_t bytes);

} // namespace farandole
