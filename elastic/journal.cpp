#include "elastic/journal.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace farandole {

namespace {

/// A file up to this size is not compacted.
constexpr std::size_t least_bytes = std::size_t{64} << 10;
constexpr std::size_t snapshots_to_rewrite = 8;

std::string reason() {
  return std::strerror(errno);
}

error refused(const std::string& path, const std::string& reason) {
  return {error_kind::precondition, "the journal " + path + " cannot be used: " + reason};
}

std::string text_of(const journal_damage& found) {
  return "it is damaged at byte " + std::to_string(found.offset) + " (record " +
         std::to_string(found.record) + "): " + found.reason;
}

/// Whether the change must be synced: without it, two generations could have the same number, or two rendezvous
/// the same epoch. Members and the launcher report all other changes again.
bool must_last(const job_image& before, const job_image& current) {
  return before.epoch != current.epoch || before.generation != current.generation ||
         before.running != current.running || before.launcher != current.launcher;
}

} // namespace

expected<std::unique_ptr<journal>> journal::open(const std::string& path, std::shared_ptr<disk> storage,
                                                 damaged rule) {
  std::unique_ptr<journal> made(new journal(path, std::move(storage)));
  if (auto problem = made->lock())
    return problem;
  if (auto problem = made->read(rule))
    return problem;
  return made;
}

error journal::lock() {
  std::string holder;
  lock_ = disk_->lock(path_ + ".lock", holder);
  if (lock_)
    return {};
  if (errno == ELOOP)
    return refused(path_, "its lock file " + path_ + ".lock is a symbolic link; remove it");
  if (errno != EWOULDBLOCK)
    return refused(path_, "its lock file " + path_ + ".lock cannot be locked: " + reason());
  return refused(path_, (holder.empty() ? "another process" : holder) + " has it; end that rendezvous first");
}

error journal::read(damaged rule) {
  file_ = disk_->open(path_);
  if (!file_ && errno == ENOENT)
    return {};
  if (!file_)
    return refused(path_, errno == EINVAL ? "it is no regular file" : reason());
  std::vector<std::byte> bytes;
  if (!file_->read(bytes))
    return refused(path_, reason());
  auto content = replay(bytes);
  if (!content)
    return refused(path_, content.error().text);
  found_ = std::move(content->job);
  failed_ = std::move(content->failed);
  bytes_ = content->sound_bytes;
  last_ = content->last;
  if (bytes_ == bytes.size())
    return {};
  if (content->damage) {
    if (rule == damaged::go_on_before_it)
      return set_aside(bytes, *content->damage);
    return refused(path_,
                   text_of(*content->damage) +
                       ", and the records after it cannot be trusted. Replace the file by an intact copy, "
                       "or end the job and begin with a new journal; farandole rendezvous "
                       "--ignore-journal-damage continues from the records "
                       "before the damage, and discards the later ones");
  }
  repaired_ = "the journal " + path_ + " ends in a record that was not written to its end (byte " +
              std::to_string(bytes_) + " of " + std::to_string(bytes.size()) + "); it is cut off there";
  if (!file_->cut(bytes_))
    return refused(path_, "its torn end cannot be cut off: " + reason());
  return {};
}

/// Copies the damaged file. The file itself stays unchanged until the first change replaces it.
error journal::set_aside(std::span<const std::byte> bytes, const journal_damage& found) {
  const auto copy = path_ + ".damaged";
  const auto file = disk_->create(copy);
  if (!file || !file->append(bytes) || !file->sync())
    return refused(path_, text_of(found) + ", and it cannot be copied to " + copy + ": " + reason());
  repaired_ = "the journal " + path_ + ": " + text_of(found) +
              "; the job continues from the records before it, because of --ignore-journal-damage, and " +
              copy + " is a copy of the whole";
  file_.reset();
  return {};
}

error journal::remember(const job_image& current) {
  if (file_ && written_ == current && !owes_failed_)
    return {};
  const auto limit = std::max(least_bytes, snapshots_to_rewrite * snapshot_bytes_);
  const bool anew = !file_ || !written_ || owes_failed_ || bytes_ > limit;
  journal_writer next(last_);
  auto problem = anew ? rewrite(current) : error{};
  if (!anew) {
    const auto entry = next.entry(journal_record::change, difference(*written_, current));
    problem = append(entry, next.last(), must_last(*written_, current));
  }
  if (!problem)
    written_ = current;
  return once(std::move(problem));
}

error journal::remember(const std::vector<failed_host>& failed) {
  if (failed_ == failed)
    return {};
  failed_ = failed;
  if (!written_)
    return {};
  journal_writer next(last_);
  const auto entry = next.entry(failed_);
  auto problem = file_ ? append(entry, next.last(), true) : rewrite(*written_);
  owes_failed_ = static_cast<bool>(problem);
  // Success does not reset `failing_`: only the next write of the job itself shows that it is in the file.
  return problem ? once(std::move(problem)) : error{};
}

error journal::once(error problem) {
  return std::exchange(failing_, static_cast<bool>(problem)) ? error{} : std::move(problem);
}

error journal::rewrite(const job_image& current) {
  const auto fresh = path_ + ".new";
  auto file = disk_->create(fresh);
  auto bytes = journal_header();
  const auto add = [&](const std::vector<std::byte>& entry) {
    bytes.insert(bytes.end(), entry.begin(), entry.end());
  };
  journal_writer writer;
  add(writer.entry(journal_record::snapshot, current));
  if (!failed_.empty())
    add(writer.entry(failed_));
  add(writer.synced()); // valid, because the file is renamed only after the sync
  if (!file || !file->append(bytes) || !file->sync())
    return cannot_write(fresh);
  if (!disk_->rename(fresh, path_)) {
    // It is unknown whether `path_` names the old or the new file, so the open file may have no name any more.
    auto problem = cannot_write(path_);
    file_.reset();
    return problem;
  }
  file_ = std::move(file);
  last_ = writer.last();
  bytes_ = snapshot_bytes_ = bytes.size();
  owes_failed_ = false;
  return {};
}

error journal::append(std::span<const std::byte> entry, journal_link made, bool to_disk) {
  if (!file_->append(entry)) {
    auto problem = cannot_write(path_);
    // A partial record must not remain before later records.
    if (!file_->cut(bytes_))
      file_.reset();
    return problem;
  }
  bytes_ += entry.size();
  last_ = made;
  if (!to_disk)
    return {};
  if (!file_->sync()) {
    // After a failed sync the content of the disk is unknown: the next change creates a new file.
    auto problem = cannot_write(path_);
    file_.reset();
    return problem;
  }
  mark_synced();
  return {};
}

// A failure is no error: without the mark, damage to the record before it may be taken for a torn end.
void journal::mark_synced() {
  journal_writer next(last_);
  const auto mark = next.synced();
  if (file_->append(mark)) {
    bytes_ += mark.size();
    last_ = next.last();
  } else if (!file_->cut(bytes_)) {
    file_.reset();
  }
}

error journal::cannot_write(const std::string& text) const {
  return {error_kind::unknown, "the journal cannot be written (" + text + ": " + reason() +
                                   "); the job goes on without it, and should this rendezvous be lost, "
                                   "a new one would not know of later changes"};
}

} // namespace farandole
