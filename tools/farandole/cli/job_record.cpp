#include "tools/farandole/cli/job_record.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>

#include "messages/values/file_bytes.hpp"

namespace farandole {

namespace {

constexpr std::string_view suffix = ".job";
constexpr std::size_t most_bytes = std::size_t{64} << 10;

error wrong(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

error system_error(const std::string& text) {
  return {error_kind::unknown, text + ": " + std::strerror(errno)};
}

/// The text on one line: control characters become spaces.
std::string flat(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' '; }, ' ');
  return text;
}

template <class Number>
bool read_number(std::string_view text, Number& into) {
  const auto end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, into);
  return result.ec == std::errc{} && result.ptr == end;
}

/// Fails unless the file is of this kind and only this user can read or write it.
error require_own(int fd, const std::string& path, mode_t kind) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0)
    return system_error(path);
  if ((facts.st_mode & S_IFMT) != kind)
    return wrong(path + " is not of the expected kind: a " + (kind == S_IFDIR ? "folder" : "plain file"));
  if (facts.st_uid != ::geteuid() || (facts.st_mode & 077) != 0)
    return wrong(path + " belongs to others, or others may read it");
  return {};
}

/// Opens a folder whose parent may be writable by all users. Refuses a symbolic link, and a folder that another
/// user owns or can access.
expected<descriptor> open_own_folder(const std::string& path) {
  descriptor folder{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!folder)
    return system_error(path);
  if (auto problem = require_own(folder.get(), path, S_IFDIR))
    return problem;
  return folder;
}

expected<descriptor> make_own_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return system_error(path);
  return open_own_folder(path);
}

/// `path` is relative to the descriptor `folder`; any path if that is AT_FDCWD.
expected<descriptor> open_own_file(int folder, const std::string& path) {
  descriptor file{::openat(folder, path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)};
  if (!file)
    return system_error(path);
  if (auto problem = require_own(file.get(), path, S_IFREG))
    return problem;
  return file;
}

expected<job_record> read_from(const descriptor& file, const std::string& path) {
  std::string text(most_bytes, '\0');
  const auto count = ::pread(file.get(), text.data(), text.size(), 0);
  if (count < 0)
    return system_error(path);
  text.resize(static_cast<std::size_t>(count));
  auto job = parse_job_record(text);
  return job ? job : wrong(path + " tells no job: " + job.error().text);
}

/// File names of the records in a folder.
std::vector<std::string> names_in(const descriptor& folder) {
  std::vector<std::string> names;
  // The folder is opened again, because a duplicated descriptor would share its position.
  auto* all = ::fdopendir(::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!all)
    return names;
  while (const auto* entry = ::readdir(all))
    if (std::string_view(entry->d_name).ends_with(suffix))
      names.emplace_back(entry->d_name);
  ::closedir(all);
  return names;
}

/// The records of jobs whose launchers run. Removes the records of all other launchers.
std::vector<job_record> sort_out(const descriptor& folder) {
  std::vector<job_record> jobs;
  for (const auto& name : names_in(folder)) {
    auto file = open_own_file(folder.get(), name);
    if (!file)
      continue;
    if (::flock(file->get(), LOCK_SH | LOCK_NB) == 0)
      ::unlinkat(folder.get(), name.c_str(), 0); // its launcher is gone
    else if (auto job = read_from(*file, name))
      jobs.push_back(std::move(*job));
  }
  return jobs;
}

std::string list_of(const std::vector<job_record>& jobs) {
  std::string text;
  for (const auto& job : jobs)
    text += "\n  " + job.name + "  (process " + std::to_string(job.launcher) + ") " + job.command;
  return text;
}

error not_elastic(const job_record& job) {
  return wrong("job " + job.name + " is not elastic: its workers cannot leave while it runs (--min-np or " +
               "--host-discovery-script make a job elastic)");
}

} // namespace

std::string job_name(const std::vector<std::string>& command, std::int64_t launcher) {
  const auto script = std::find_if(command.begin(), command.end(),
                                   [](const std::string& word) { return word.ends_with(".py"); });
  const auto& word = script != command.end() ? *script
                     : command.empty()       ? std::string("job")
                                             : command.front();
  auto name = std::filesystem::path(word).stem().string();
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '_' && c != '-'; }, '_');
  return name + "-" + std::to_string(launcher);
}

std::string to_text(const job_record& job) {
  std::string text = "name " + job.name + "\nlauncher " + std::to_string(job.launcher) + "\nelastic " +
                     (job.elastic ? "1" : "0") + "\ncommand " + flat(job.command).substr(0, 4096) + "\n";
  text += "ip " + job.ip + "\nport " + std::to_string(job.port) + "\n";
  if (job.agent_port != 0)
    text += "agent_ip " + job.agent_ip + "\nagent_port " + std::to_string(job.agent_port) + "\n";
  return text + "secret " + job.secret + "\n";
}

expected<job_record> parse_job_record(std::string_view text) {
  job_record job;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const auto blank = line.find(' ');
    const auto key = line.substr(0, blank);
    const auto value = blank == std::string_view::npos ? std::string_view{} : line.substr(blank + 1);
    bool good = true;
    if (key == "name")
      job.name = value;
    else if (key == "launcher")
      good = read_number(value, job.launcher);
    else if (key == "elastic")
      job.elastic = value == "1";
    else if (key == "command")
      job.command = value;
    else if (key == "ip")
      job.ip = value;
    else if (key == "port")
      good = read_number(value, job.port);
    else if (key == "agent_ip")
      job.agent_ip = value;
    else if (key == "agent_port")
      good = read_number(value, job.agent_port);
    else if (key == "secret")
      job.secret = value;
    if (!good)
      return wrong("'" + std::string(key) + "' is no number");
  }
  const bool has_agents = job.agent_port != 0;
  if (job.name.empty() || job.ip.empty() || job.port == 0 || (has_agents && job.agent_ip.empty()) ||
      job.secret.empty())
    return wrong("it is incomplete");
  return job;
}

expected<job_record> choose_job(const std::vector<job_record>& running, const std::string& wanted,
                                job_kind kind) {
  const auto fits = [kind](const job_record& job) { return kind == job_kind::any || job.elastic; };
  if (!wanted.empty()) {
    for (const auto& job : running)
      if (job.name == wanted)
        return fits(job) ? expected<job_record>(job) : not_elastic(job);
    return wrong("there is no job " + wanted +
                 (running.empty() ? "; no job of yours runs here" : "; these run:" + list_of(running)));
  }
  std::vector<job_record> usable;
  std::copy_if(running.begin(), running.end(), std::back_inserter(usable), fits);
  if (usable.size() == 1)
    return usable.front();
  if (usable.size() > 1)
    return wrong("several jobs run; name the one that you mean:" + list_of(usable));
  if (running.size() == 1)
    return not_elastic(running.front());
  return wrong(running.empty() ? "no job of yours runs here"
                               : "none of your jobs is elastic:" + list_of(running));
}

std::vector<std::string> job_folders() {
  std::vector<std::string> folders;
  struct stat facts {};
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime && runtime[0] == '/' && ::stat(runtime, &facts) == 0 && S_ISDIR(facts.st_mode) &&
      ::access(runtime, W_OK) == 0)
    folders.push_back(std::string(runtime) + "/farandole");
  std::error_code problem;
  const auto temporary = std::filesystem::temp_directory_path(problem);
  folders.push_back((problem ? std::string("/tmp") : temporary.string()) + "/farandole-" +
                    std::to_string(::geteuid()));
  return folders;
}

expected<job_file> job_file::write(const std::vector<std::string>& folders, const job_record& job) {
  error reason{error_kind::unknown, "there is no folder for it"};
  for (const auto& folder : folders) {
    auto opened = make_own_folder(folder);
    if (!opened) {
      reason = opened.error();
      continue;
    }
    sort_out(*opened);
    const int at = opened->get();
    const auto name = job.name + std::string(suffix), fresh = name + ".new";
    const auto path = std::filesystem::path(folder) / name;
    ::unlinkat(at, fresh.c_str(), 0); // left by a killed launcher with the same process id
    descriptor file{::openat(at, fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
    if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      reason = system_error(path.string() + ".new");
      continue;
    }
    const auto text = to_text(job);
    const auto problem =
        write_all(file.get(), std::as_bytes(std::span(text))) ? error{} : system_error("the job's file");
    if (problem || ::renameat(at, fresh.c_str(), at, name.c_str()) != 0) {
      reason = problem ? problem : system_error(path.string());
      ::unlinkat(at, fresh.c_str(), 0);
      continue;
    }
    return job_file(std::move(*opened), std::move(file), path.string());
  }
  return reason;
}

job_file::~job_file() {
  if (lock_)
    ::unlinkat(folder_.get(), std::filesystem::path(path_).filename().c_str(), 0);
}

std::vector<job_record> running_jobs(const std::vector<std::string>& folders) {
  std::vector<job_record> jobs;
  for (const auto& folder : folders)
    if (const auto opened = open_own_folder(folder))
      for (auto& job : sort_out(*opened))
        jobs.push_back(std::move(job));
  std::sort(jobs.begin(), jobs.end(), [](auto& a, auto& b) { return a.name < b.name; });
  return jobs;
}

expected<job_record> read_job(const std::string& path, job_kind kind) {
  const auto file = open_own_file(AT_FDCWD, path);
  if (!file)
    return file.error();
  auto job = read_from(*file, path);
  if (job && kind == job_kind::elastic && !job->elastic)
    return not_elastic(*job);
  return job;
}

expected<job_record> find_job(const std::string& wanted, job_kind kind) {
  if (wanted.find('/') != std::string::npos)
    return read_job(wanted, kind);
  const auto folders = job_folders();
  auto job = choose_job(running_jobs(folders), wanted, kind);
  if (job)
    return job;
  auto text = job.error().text + "\n(looked in";
  for (const auto& folder : folders)
    text += " " + folder;
  return error{job.error().kind, text + ")"};
}

} // namespace farandole
