// What a journal asks of a file system, so that the simulated world can have one that is full, or loses what
// was not synced. As POSIX has it: what fails returns false, or nothing, and errno says why.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace farandole {

class disk_file {
public:
  virtual ~disk_file() = default;

  /// All of it, behind what `bytes` has.
  virtual bool read(std::vector<std::byte>& bytes) = 0;
  /// Where it fails, a part may have been written.
  virtual bool append(std::span<const std::byte> bytes) = 0;
  /// Nothing is left beyond so many bytes.
  virtual bool cut(std::size_t bytes) = 0;
  /// What it holds outlasts the machine's end.
  virtual bool sync() = 0;
};

/// Held as long as it stands, at most until the process ends.
class disk_lock {
public:
  virtual ~disk_lock() = default;
};

class disk {
public:
  virtual ~disk() = default;

  /// One that is there. Whatever is no regular file: EINVAL.
  virtual std::unique_ptr<disk_file> open(const std::string& path) = 0;
  /// An empty one, in place of what was there. A symbolic link is not followed, but replaced.
  virtual std::unique_ptr<disk_file> create(const std::string& path) = 0;
  /// What was there under `to` is gone. The new name outlasts the machine's end.
  virtual bool rename(const std::string& from, const std::string& to) = 0;
  /// The lock file stays. A symbolic link is not followed (ELOOP). Where another process has it
  /// (EWOULDBLOCK), `holder` names that one, if it can.
  virtual std::unique_ptr<disk_lock> lock(const std::string& path, std::string& holder) = 0;
};

/// This machine's.
std::shared_ptr<disk> local_disk();

} // namespace farandole
