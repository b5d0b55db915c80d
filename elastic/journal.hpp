// The write-ahead log of a rendezvous, from which a restarted rendezvous recovers its job. One process at a
// time may use it: a lock file beside it, PATH.lock, names that process. When the file has grown to several
// times the size of a snapshot, it is compacted: a new snapshot is written to a new file, which replaces it.
//
// A change is written to the file before the rendezvous acts on it, and a change of generation is also synced
// to disk. If the file cannot be written, the job continues without it, and each later change tries again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "elastic/disk.hpp"
#include "elastic/journal_format.hpp"

namespace farandole {

class journal {
public:
  /// How to treat a damaged file. The user must decide: to continue means that the records behind the damage
  /// are lost, so that the number of a generation or an epoch may be used twice.
  enum class damaged : std::uint8_t {
    refuse,
    go_on_before_it ///< the whole file is copied to PATH.damaged
  };

  /// Takes the lock, reads the file and cuts off a torn end. The error names the process that has the lock, or
  /// the record from which on the file cannot be trusted.
  static expected<std::unique_ptr<journal>>
  open(const std::string& path, std::shared_ptr<disk> storage = local_disk(), damaged rule = damaged::refuse);

  /// The job that the file held; empty if the file is new.
  const std::optional<job_image>& found() const { return found_; }
  /// The hosts that failed, from the file or from the last remember().
  const std::vector<failed_host>& failed() const { return failed_; }
  /// A message about content that was cut off or lost when the file was opened; empty if none was.
  const std::string& repaired() const { return repaired_; }
  const std::string& path() const { return path_; }

  /// Writes the state of the job if it has changed. When the file cannot be written, the first failure returns
  /// an error; further ones return none until a write has succeeded.
  error remember(const job_image& current);
  /// The same for the hosts that failed. Before the first job is written they are kept and written with it.
  error remember(const std::vector<failed_host>& failed);
  /// The last change is not in the file: call remember() again, even if the job has not changed.
  bool behind() const { return failing_; }

private:
  journal(std::string path, std::shared_ptr<disk> storage)
      : path_(std::move(path)), disk_(std::move(storage)) {}

  error lock();
  error read(damaged rule);
  error set_aside(std::span<const std::byte> bytes, const journal_damage& found);
  error rewrite(const job_image& current);
  error append(std::span<const std::byte> entry, journal_link made, bool to_disk);
  void mark_synced();
  error once(error problem);
  error cannot_write(const std::string& text) const;

  std::string path_;
  std::shared_ptr<disk> disk_;
  std::unique_ptr<disk_lock> lock_;
  std::unique_ptr<disk_file> file_; ///< null: the next change creates a new file
  std::optional<job_image> found_;
  std::optional<job_image> written_; ///< last state that this process wrote
  std::vector<failed_host> failed_;
  bool owes_failed_ = false; ///< the file lacks `failed_`
  journal_link last_;        ///< last record of the file
  std::string repaired_;
  std::size_t bytes_ = 0;          ///< size of the file, without a torn end
  std::size_t snapshot_bytes_ = 0; ///< part of `bytes_` written by the last compaction
  bool failing_ = false;           ///< the last change is not in the file
};

} // namespace farandole
