// The file in which a rendezvous keeps what it must not forget, so that one that is started again knows it.
// One process at a time has it: a lock file beside it, PATH.lock, names who. It stays as long as a few
// snapshots: beyond that the whole is written to a new file, which takes the old one's name.
//
// A change is in the file before anybody acts on it, and a change of generation is on the disk. Where the
// file cannot be written, the job goes on without: each later change tries again.
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
  /// What to do with a file that is damaged. Only a person can know which is the smaller evil: what was
  /// written behind the damage is lost, so that a generation or an epoch may come twice.
  enum class damaged : std::uint8_t {
    refuse,
    go_on_before_it ///< a copy of the whole stays under PATH.damaged
  };

  /// Takes the lock, reads what is there and cuts off a torn end. The error says who has the lock, or from
  /// which record on the file cannot be believed.
  static expected<std::unique_ptr<journal>> open(const std::string& path,
                                                 std::shared_ptr<disk> held_disk = local_disk(),
                                                 damaged rule = damaged::refuse);

  /// What the file held; none: it is new.
  const std::optional<job_image>& found() const { return found_; }
  /// Hosts that failed, as the file held them or as was told since.
  const std::vector<failed_host>& failed() const { return failed_; }
  /// For people: what was cut off, or lost, when the file was opened; empty: nothing.
  const std::string& repaired() const { return repaired_; }
  const std::string& path() const { return path_; }

  /// Writes how the job is from now on, if that differs from before. The error comes once for each time that
  /// the file cannot be written, until it can be again.
  error remember(const job_image& current);
  /// The same of the hosts that failed. Before the first job they only wait to be written with it.
  error remember(const std::vector<failed_host>& failed);
  /// Something was not written: tell the job again, changed or not.
  bool behind() const { return failing_; }

private:
  journal(std::string path, std::shared_ptr<disk> held_disk)
      : path_(std::move(path)), disk_(std::move(held_disk)) {}

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
  std::unique_ptr<disk_file> file_; ///< null: the next change makes a new one
  std::optional<job_image> found_;
  std::optional<job_image> written_; ///< by this process
  std::vector<failed_host> failed_;
  bool owes_failed_ = false; ///< the file has others
  journal_link last_;        ///< of the file's records
  std::string repaired_;
  std::size_t bytes_ = 0;          ///< of the file, all sound
  std::size_t snapshot_bytes_ = 0; ///< of it
  bool failing_ = false;           ///< what was told last is not in the file
};

} // namespace farandole
