#include "elastic/disk.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "messages/values/descriptor.hpp"
#include "messages/values/file_bytes.hpp"

namespace farandole {

namespace {

bool read_all(int fd, std::vector<std::byte>& bytes) {
  std::array<std::byte, 65536> piece;
  for (;;) {
    const auto count = ::read(fd, piece.data(), piece.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return count == 0;
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + count);
  }
}

std::string this_process() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return "process " + std::to_string(::getpid()) + " on " + host.data();
}

/// Makes a new name durable, so that it survives a crash of the machine.
bool sync_folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  const auto folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const descriptor opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  return opened && ::fsync(opened.get()) == 0;
}

class local_file final : public disk_file {
public:
  explicit local_file(descriptor opened) : file_(std::move(opened)) {}

  bool read(std::vector<std::byte>& bytes) override { return read_all(file_.get(), bytes); }
  bool append(std::span<const std::byte> bytes) override { return write_all(file_.get(), bytes); }
  bool cut(std::size_t bytes) override { return ::ftruncate(file_.get(), static_cast<off_t>(bytes)) == 0; }
  bool sync() override { return ::fdatasync(file_.get()) == 0; }

private:
  descriptor file_;
};

class local_lock final : public disk_lock {
public:
  explicit local_lock(descriptor locked) : file_(std::move(locked)) {}

private:
  descriptor file_;
};

class machine_disk final : public disk {
public:
  std::unique_ptr<disk_file> open(const std::string& path) override {
    descriptor file{::open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC)};
    struct stat stat {};
    if (!file || ::fstat(file.get(), &stat) != 0)
      return nullptr;
    if (!S_ISREG(stat.st_mode)) {
      errno = EINVAL;
      return nullptr;
    }
    return std::make_unique<local_file>(std::move(file));
  }

  std::unique_ptr<disk_file> create(const std::string& path) override {
    // Another user may have placed a symbolic link at `path`: it is removed, and never followed.
    ::unlink(path.c_str());
    descriptor file{
        ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600)};
    return file ? std::make_unique<local_file>(std::move(file)) : nullptr;
  }

  bool rename(const std::string& from, const std::string& to) override {
    return ::rename(from.c_str(), to.c_str()) == 0 && sync_folder_of(to);
  }

  std::unique_ptr<disk_lock> lock(const std::string& path, std::string& holder) override {
    descriptor file{::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)};
    if (!file)
      return nullptr;
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      const auto code = errno;
      std::vector<std::byte> text;
      if (code == EWOULDBLOCK && read_all(file.get(), text))
        holder.assign(reinterpret_cast<const char*>(text.data()), text.size());
      holder.resize(std::min(holder.size(), holder.find('\n')));
      errno = code;
      return nullptr;
    }
    const auto name = this_process() + "\n";
    // The name is only for messages: the lock is valid even if it could not be written.
    [[maybe_unused]] const bool named =
        ::ftruncate(file.get(), 0) == 0 && write_all(file.get(), std::as_bytes(std::span(name)));
    return std::make_unique<local_lock>(std::move(file));
  }
};

} // namespace

std::shared_ptr<disk> local_disk() {
  return std::make_shared<machine_disk>();
}

} // namespace farandole
