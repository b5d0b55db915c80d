#include "messages/values/file_bytes.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace farandole {

bool read_at(int file, std::uint64_t offset, std::span<std::byte> target) {
  while (!target.empty()) {
    const auto count = ::pread(file, target.data(), target.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count == 0)
      errno = ENODATA;
    if (count <= 0)
      return false;
    offset += static_cast<std::uint64_t>(count);
    target = target.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

bool write_at(int file, std::uint64_t offset, std::span<const std::byte> source) {
  while (!source.empty()) {
    const auto count = ::pwrite(file, source.data(), source.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    offset += static_cast<std::uint64_t>(count);
    source = source.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

bool write_all(int file, std::span<const std::byte> source) {
  while (!source.empty()) {
    const auto count = ::write(file, source.data(), source.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    source = source.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

bool allocate_at(int file, std::uint64_t offset, std::uint64_t bytes) {
  constexpr std::uint64_t piece = 8 << 20; // a signal takes back what the call has allocated so far
  for (const auto end = offset + bytes; offset < end; offset += errno == EINTR ? 0 : piece) {
    errno = ::posix_fallocate(file, static_cast<off_t>(offset),
                              static_cast<off_t>(std::min(piece, end - offset)));
    if (errno != 0 && errno != EINTR)
      return false;
  }
  return true;
}

} // namespace farandole
