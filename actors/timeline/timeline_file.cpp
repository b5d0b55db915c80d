#include "actors/timeline/timeline_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "messages/values/file_bytes.hpp"

namespace farandole {

namespace {

error cannot_write(const std::string& path, const std::string& reason) {
  return {error_kind::unknown, "the timeline cannot be written to " + path + ": " + reason};
}

error cannot_write(const std::string& path, int number) {
  return cannot_write(path, std::string(std::strerror(number)));
}

} // namespace

// The lock belongs to the open file. The content is kept until the lock is held, and a named pipe is opened without a
// wait for its reader.
expected<timeline_file> timeline_file::create(const std::string& path, std::string_view records) {
  descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
  if (!file)
    return cannot_write(path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0)
    return cannot_write(path, errno);
  if (!S_ISREG(status.st_mode))
    return cannot_write(path, "it is not a regular file");
  // Some file systems have no locks.
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return cannot_write(path, "another process writes its timeline to this file; give each job its own");
  if (::ftruncate(file.get(), 0) != 0)
    return cannot_write(path, errno);
  timeline_file created(path, std::move(file));
  if (auto problem = created.write("[\n" + std::string(records) + "]", 0))
    return problem;
  return created;
}

// A child that was forked has inherited the open file, and with it the lock, so closing it here would not be enough.
timeline_file::~timeline_file() {
  if (file_)
    ::flock(file_.get(), LOCK_UN);
}

error timeline_file::append(std::string_view records) {
  if (records.empty())
    return {};
  if (auto problem = objection())
    return problem;
  std::string text;
  text.reserve(records.size() + 3);
  text += ",\n";
  text += records;
  text += ']';
  const auto before = size_;
  auto problem = write(text, before - 1);
  // The bytes of a part that was written are removed, and the bracket is put back. More cannot be done.
  if (problem && ::ftruncate(file_.get(), static_cast<off_t>(before)) == 0)
    static_cast<void>(write("]", before - 1));
  return problem;
}

error timeline_file::objection() const {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0)
    return cannot_write(path_, errno);
  if (status.st_nlink == 0)
    return cannot_write(path_, "the file was removed");
  if (static_cast<std::uint64_t>(status.st_size) != size_)
    return cannot_write(path_, "another program has changed the file");
  return {};
}

error timeline_file::write(std::string_view text, std::uint64_t offset) {
  if (!write_at(file_.get(), offset, std::as_bytes(std::span(text))))
    return cannot_write(path_, errno);
  size_ = offset + text.size();
  return {};
}

} // namespace farandole
