// Records of running jobs, by which tools find them. Each launcher writes a small file with the address of the
// job's rendezvous and the job's secret to a folder that only its user can access. The launcher holds a lock on
// the file while it runs, so a file without a lock is left over from a launcher that was killed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole {

struct job_record {
  std::string name;
  std::int64_t launcher = 0; ///< its process id
  bool elastic = false;
  std::string ip; ///< of the rendezvous
  std::uint16_t port = 0;
  std::string agent_ip; ///< of the launcher's listener for agents; empty: the job has no other hosts
  std::uint16_t agent_port = 0;
  std::string secret;
  std::string command; ///< for display

  friend bool operator==(const job_record&, const job_record&) = default;
};

/// A name such as "train-4711": the script's or program's name and the launcher's process id.
std::string job_name(const std::vector<std::string>& command, std::int64_t launcher);

std::string to_text(const job_record& job);
expected<job_record> parse_job_record(std::string_view text);

/// Which jobs a command can use.
enum class job_kind : std::uint8_t { elastic, any };

/// The job with the name `wanted`, or, if that is empty, the only job of this kind.
expected<job_record> choose_job(const std::vector<job_record>& running, const std::string& wanted,
                                job_kind kind = job_kind::elastic);

/// Folders with the records of this user's jobs, the preferred one first: below $XDG_RUNTIME_DIR, if it is
/// usable, and below the folder for temporary files.
std::vector<std::string> job_folders();

/// The file of a running job. The destructor removes it.
class job_file {
public:
  /// Writes the file to the first of these folders that only this user can access, and makes the folder if it
  /// does not exist. Removes files of launchers that were killed.
  static expected<job_file> write(const std::vector<std::string>& folders, const job_record& job);
  job_file(job_file&&) noexcept = default;
  job_file& operator=(job_file&&) = delete;
  ~job_file();

  const std::string& path() const { return path_; }

private:
  job_file(descriptor folder, descriptor lock, std::string path)
      : folder_(std::move(folder)), lock_(std::move(lock)), path_(std::move(path)) {}

  descriptor folder_;
  descriptor lock_;
  std::string path_;
};

/// The records of running jobs. Removes files of jobs that do not run any more. Ignores folders and files that
/// other users can access.
std::vector<job_record> running_jobs(const std::vector<std::string>& folders);
/// The record in the file `path`, which only this user may be able to access.
expected<job_record> read_job(const std::string& path, job_kind kind = job_kind::elastic);
/// The job that a user names by its name, or by the path of its file; if `wanted` is empty, the only running one.
expected<job_record> find_job(const std::string& wanted, job_kind kind);

} // namespace farandole
