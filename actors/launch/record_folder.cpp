#include "actors/launch/record_folder.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <vector>

namespace farandole {

namespace {

error failed(const std::string& path) {
  return {error_kind::unknown, path + " cannot be made: " + std::strerror(errno)};
}

std::string home() {
  if (const char* variable = std::getenv("HOME"); variable && variable[0] == '/')
    return variable;
  passwd entry{}, *found = nullptr;
  std::array<char, 4096> buffer{};
  const bool has_entry =
      ::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr;
  return has_entry ? entry.pw_dir : "";
}

/// Makes the folder and those above it, readable by this user only.
error make_all(const std::filesystem::path& path) {
  if (path.has_parent_path() && path.parent_path() != path && ::access(path.parent_path().c_str(), F_OK) != 0)
    if (auto problem = make_all(path.parent_path()))
      return problem;
  return ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST ? error{} : failed(path.string());
}

/// The time in UTC, so that names of folders sort by time: "20261126T160308".
std::string name_of(std::chrono::system_clock::time_point time) {
  const auto seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  const auto length = std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%S", &parts);
  return {text.data(), length};
}

/// Whether make_record_folder() has made a folder with this name. Others in the same place are left alone.
bool is_name(const std::string& name) {
  return name.size() > 16 && name[8] == 'T' && name[15] == '-' &&
         std::all_of(name.begin(), name.end(), [](unsigned char letter) {
           return (letter >= '0' && letter <= '9') || letter == 'T' || letter == '-';
         });
}

void remove_oldest(const std::string& parent) {
  std::error_code problem;
  std::vector<std::filesystem::path> folders;
  for (std::filesystem::directory_iterator entry(parent, problem), end; !problem && entry != end;
       entry.increment(problem))
    if (is_name(entry->path().filename().string()))
      folders.push_back(entry->path());
  std::sort(folders.begin(), folders.end());
  for (std::size_t i = 0; i + most_record_folders < folders.size(); ++i)
    std::filesystem::remove_all(folders[i], problem);
}

} // namespace

std::string record_folders_of_this_user() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state && state[0] == '/')
    return std::string(state) + "/farandole/dumps";
  const auto folder = home();
  return folder.empty() ? "" : folder + "/.local/state/farandole/dumps";
}

expected<std::string> make_record_folder(const std::string& parent,
                                         std::chrono::system_clock::time_point time) {
  if (auto problem = make_all(parent))
    return problem;
  const auto path = parent + "/" + name_of(time) + "-" + std::to_string(::getpid());
  // A job may lose several members within a second.
  auto free_path = path;
  for (int number = 2; ::mkdir(free_path.c_str(), 0700) != 0; ++number) {
    if (errno != EEXIST || number > 99)
      return failed(free_path);
    free_path = path + "-" + std::to_string(number);
  }
  remove_oldest(parent);
  return free_path;
}

expected<std::string> make_temporary_record_folder() {
  std::error_code problem;
  const auto parent = std::filesystem::temp_directory_path(problem);
  auto path = ((problem ? std::filesystem::path("/tmp") : parent) / "farandole-records-XXXXXX").string();
  return ::mkdtemp(path.data()) ? expected<std::string>(path) : failed(path);
}

} // namespace farandole
