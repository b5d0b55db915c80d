// How tools find the jobs that run: each launcher leaves a small file in a folder of its user alone, with
// where the rendezvous of the job is and the secret that opens it. The launcher locks the file as long as it
// lives, so that one which a killed launcher has left behind is told from a job that runs.
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
  std::int64_t launcher = 0; ///< its process
  bool elastic = false;      ///< only then what follows is filled, except for the command
  std::string ip;
  std::uint16_t port = 0;
  std::string secret;
  std::string command; ///< for people

  friend bool operator==(const job_record&, const job_record&) = default;
};

/// "train-4711": after the script, or the program, and the launcher's process.
std::string job_name(const std::vector<std::string>& command, std::int64_t launcher);

std::string to_text(const job_record& job);
expected<job_record> parse_job_record(std::string_view text);

/// The one that is meant: by its name, or, where that is empty, the only elastic one.
expected<job_record> choose_job(const std::vector<job_record>& running, const std::string& wanted);

/// Folders in which jobs of this user are told, the one in use first: below $XDG_RUNTIME_DIR, where there is
/// one, and below the folder of temporary files.
std::vector<std::string> job_folders();

/// The file of a running job; it goes with this object.
class job_file {
public:
  /// In the first of these folders that is, or can be made, its user's alone. Removes what launchers that
  /// were killed have left there.
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

/// Of the jobs that run. Removes files of those that do not. A folder or a file that is not its user's alone
/// is left as it is, and not read.
std::vector<job_record> running_jobs(const std::vector<std::string>& folders);
/// Of one job, by the path of its file, which must be its user's alone.
expected<job_record> read_job(const std::string& path);

} // namespace farandole
