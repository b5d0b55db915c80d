// The file system operations that a journal uses, as an interface: the simulated world implements a disk that
// is full, or that loses unsynced data. Errors follow POSIX: a call that fails returns false or null, and sets
// errno.
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

  /// Appends the whole content of the file to `bytes`.
  virtual bool read(std::vector<std::byte>& bytes) = 0;
  /// Appends to the file. After a failure, a part of `bytes` may have been written.
  virtual bool append(std::span<const std::byte> bytes) = 0;
  /// Truncates the file to `bytes` bytes.
  virtual bool cut(std::size_t bytes) = 0;
  /// Makes the content durable: it survives a crash of the machine.
  virtual bool sync() = 0;
};

/// A lock, held until this object is destroyed or the process ends.
class disk_lock {
public:
  virtual ~disk_lock() = default;
};

class disk {
public:
  virtual ~disk() = default;

  /// Opens an existing file. Fails with EINVAL if it is not a regular file.
  virtual std::unique_ptr<disk_file> open(const std::string& path) = 0;
  /// Creates an empty file and replaces an existing one. A symbolic link is replaced, not followed.
  virtual std::unique_ptr<disk_file> create(const std::string& path) = 0;
  /// Renames a file and replaces an existing file `to`. The new name survives a crash of the machine.
  virtual bool rename(const std::string& from, const std::string& to) = 0;
  /// Locks the file `path`, which is created if necessary and never removed. A symbolic link is not followed
  /// (ELOOP). If another process holds the lock (EWOULDBLOCK), `holder` names that process as far as the lock
  /// file does.
  virtual std::unique_ptr<disk_lock> lock(const std::string& path, std::string& holder) = 0;
};

/// The file system of this machine.
std::shared_ptr<disk> local_disk();

} // namespace farandole
