#include "messages/values/file_bytes.hpp"

#include <fcntl.h>
#include <unistd.h>

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
  do
    errno = ::posix_fallocate(file, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  while (errno == EINTR);
  return errno == 0;
}

} // namespace farandole
