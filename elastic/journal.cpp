#include "elastic/journal.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace farandole {

namespace {

/// A file no longer than this is never worth writing anew.
constexpr std::size_t least_bytes = std::size_t{64} << 10;
constexpr std::size_t snapshots_to_rewrite = 8;

std::string reason() {
  return std::strerror(errno);
}

error refused(const std::string& path, const std::string& why) {
  return {error_kind::precondition, "the journal " + path + " cannot be used: " + why};
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

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

/// So that a new name is still there when the machine comes up again.
bool sync_folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  const auto folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const descriptor opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  return opened && ::fsync(opened.get()) == 0;
}

/// Where forgetting a change would let two generations have one number, or two rendezvous one epoch. The rest
/// is told again by members and launcher.
bool must_last(const job_image& before, const job_image& now) {
  return before.epoch != now.epoch || before.generation != now.generation || before.running != now.running ||
         before.launcher != now.launcher;
}

} // namespace

expected<std::unique_ptr<journal>> journal::open(const std::string& path) {
  std::unique_ptr<journal> made(new journal(path));
  if (auto problem = made->lock())
    return problem;
  if (auto problem = made->read())
    return problem;
  return made;
}

error journal::lock() {
  lock_ = descriptor{::open((path_ + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  if (!lock_)
    return refused(path_, "its lock file " + path_ + ".lock cannot be opened: " + reason());
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    std::vector<std::byte> text;
    const bool known = errno == EWOULDBLOCK && read_all(lock_.get(), text) && !text.empty();
    if (errno != EWOULDBLOCK)
      return refused(path_, "it cannot be locked: " + reason());
    const auto holder = known ? std::string(reinterpret_cast<const char*>(text.data()), text.size())
                              : std::string("another process");
    return refused(path_, holder.substr(0, holder.find('\n')) + " has it; end that rendezvous first");
  }
  const auto name = this_process() + "\n";
  // Only for people: that it is locked does not hang on it.
  [[maybe_unused]] const bool named =
      ::ftruncate(lock_.get(), 0) == 0 && write_all(lock_.get(), std::as_bytes(std::span(name)));
  return {};
}

error journal::read() {
  file_ = descriptor{::open(path_.c_str(), O_RDWR | O_APPEND | O_CLOEXEC)};
  if (!file_)
    return errno == ENOENT ? error{} : refused(path_, reason());
  struct stat what {};
  if (::fstat(file_.get(), &what) != 0 || !S_ISREG(what.st_mode))
    return refused(path_, "it is no regular file");
  std::vector<std::byte> bytes;
  if (!read_all(file_.get(), bytes))
    return refused(path_, reason());
  auto content = replay(bytes);
  if (!content)
    return refused(path_, content.error().text);
  found_ = std::move(content->job);
  failed_ = std::move(content->failed);
  bytes_ = content->sound_bytes;
  if (bytes_ == bytes.size())
    return {};
  repaired_ = "the journal " + path_ + " ends in a record that was not written to its end (byte " +
              std::to_string(bytes_) + " of " + std::to_string(bytes.size()) + "); it is cut off there";
  if (::ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0)
    return refused(path_, "its torn end cannot be cut off: " + reason());
  return {};
}

error journal::remember(const job_image& now) {
  if (written_ == now && !owes_failed_)
    return {};
  const auto limit = std::max(least_bytes, snapshots_to_rewrite * snapshot_bytes_);
  const bool anew = !file_ || !written_ || owes_failed_ || bytes_ > limit;
  auto problem = anew ? rewrite(now)
                      : append(journal_entry(journal_record::change, difference(*written_, now)),
                               must_last(*written_, now));
  if (!problem)
    written_ = now;
  return once(std::move(problem));
}

error journal::remember(const std::vector<failed_host>& failed) {
  if (failed_ == failed)
    return {};
  failed_ = failed;
  if (!written_)
    return {};
  auto problem = file_ ? append(journal_entry(failed_), true) : rewrite(*written_);
  owes_failed_ = static_cast<bool>(problem);
  return once(std::move(problem));
}

error journal::once(error problem) {
  return std::exchange(failing_, static_cast<bool>(problem)) ? error{} : std::move(problem);
}

error journal::rewrite(const job_image& now) {
  const auto fresh = path_ + ".new";
  descriptor file{::open(fresh.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600)};
  auto bytes = journal_header();
  const auto add = [&](const std::vector<std::byte>& entry) {
    bytes.insert(bytes.end(), entry.begin(), entry.end());
  };
  add(journal_entry(journal_record::snapshot, now));
  if (!failed_.empty())
    add(journal_entry(failed_));
  if (!file || !write_all(file.get(), bytes) || ::fsync(file.get()) != 0)
    return cannot_write(fresh);
  if (::rename(fresh.c_str(), path_.c_str()) != 0 || !sync_folder_of(path_))
    return cannot_write(path_);
  file_ = std::move(file);
  bytes_ = snapshot_bytes_ = bytes.size();
  owes_failed_ = false;
  return {};
}

error journal::append(std::span<const std::byte> entry, bool to_disk) {
  if (!write_all(file_.get(), entry)) {
    auto problem = cannot_write(path_);
    // Half a record must not stay in the middle.
    if (::ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0)
      file_.close();
    return problem;
  }
  bytes_ += entry.size();
  if (to_disk && ::fdatasync(file_.get()) != 0) {
    // After a failed sync nobody knows what the disk has: the next change begins a new file.
    auto problem = cannot_write(path_);
    file_.close();
    return problem;
  }
  return {};
}

error journal::cannot_write(const std::string& what) const {
  return {error_kind::unknown, "the journal cannot be written (" + what + ": " + reason() +
                                   "); the job goes on without it, and should this rendezvous be lost, "
                                   "another one would not know what has changed since"};
}

} // namespace farandole
