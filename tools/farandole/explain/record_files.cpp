#include "tools/farandole/explain/record_files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "messages/record/packed_record.hpp"
#include "messages/values/descriptor.hpp"
#include "tools/farandole/explain/host_clocks.hpp"

namespace farandole {

namespace {

constexpr std::string_view record_suffix = ".events", trace_suffix = ".trace";

bool is_record_name(const std::string& name) {
  return name.ends_with(record_suffix) || name.ends_with(trace_suffix);
}

std::string system_problem(const std::string& path) {
  return path + " cannot be read: " + std::strerror(errno);
}

/// The pages of a file. Unread parts of a sparse file take no memory.
class mapped_file {
public:
  mapped_file(int file, std::size_t bytes)
      : base_(::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0)), bytes_(bytes) {}
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  ~mapped_file() {
    if (is_mapped())
      ::munmap(base_, bytes_);
  }

  bool is_mapped() const { return base_ != MAP_FAILED; }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(base_), bytes_}; }

private:
  void* base_;
  std::size_t bytes_;
};

void read_file(const std::string& path, record_files& found) {
  descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) {
    found.problems.push_back(system_problem(path));
    return;
  }
  if (!S_ISREG(status.st_mode)) {
    found.problems.push_back(path + " is no plain file");
    return;
  }
  if (is_packed_record(file.get())) {
    descriptor unpacked{::memfd_create("farandole-trace", MFD_CLOEXEC)};
    if (!unpacked) {
      found.problems.push_back(system_problem(path));
      return;
    }
    if (const auto problem = unpack_record(file.get(), unpacked.get())) {
      found.problems.push_back(path + ": " + problem.text);
      return;
    }
    file = std::move(unpacked);
    ::fstat(file.get(), &status);
  }
  const auto bytes = static_cast<std::size_t>(status.st_size);
  // Also refuses files that are too large to be a record.
  if (!layout_of(bytes)) {
    found.problems.push_back(path + " is no complete event record: it has " + std::to_string(bytes) +
                             " bytes");
    return;
  }
  const mapped_file memory(file.get(), bytes);
  if (!memory.is_mapped()) {
    found.problems.push_back(system_problem(path));
    return;
  }
  auto record = read_event_record(memory.bytes());
  if (!record) {
    found.problems.push_back(path + ": " + record.error().text);
    return;
  }
  if (record->refused_names > 0)
    found.notices.push_back(path +
                            ": the record had no room for the names of all tensors; those without a name are "
                            "shown as one");
  found.files.push_back({path, std::move(*record)});
}

void read_folder(const std::string& path, record_files& found) {
  std::error_code problem;
  std::vector<std::string> files;
  for (std::filesystem::directory_iterator entry(path, problem), end; !problem && entry != end;
       entry.increment(problem))
    if (is_record_name(entry->path().filename().string()))
      files.push_back(entry->path().string());
  if (problem) {
    found.problems.push_back(path + " cannot be read: " + problem.message());
    return;
  }
  if (files.empty())
    found.problems.push_back("the folder " + path + " has no event records (files *.events and *.trace)");
  std::sort(files.begin(), files.end());
  for (const auto& file : files)
    read_file(file, found);
}

bool is_member(const record_file& file) {
  return file.record.member.rank >= 0;
}

void keep_one_job(record_files& found) {
  std::map<std::uint64_t, std::size_t> jobs;
  for (const auto& file : found.files)
    if (is_member(file))
      ++jobs[file.record.member.job];
  if (jobs.size() < 2)
    return;
  const auto largest = std::max_element(jobs.begin(), jobs.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<record_file> kept;
  for (auto& file : found.files)
    if (is_member(file) && file.record.member.job != largest->first)
      found.problems.push_back(file.path + " is left out: it is the record of another job");
    else
      kept.push_back(std::move(file));
  found.files = std::move(kept);
}

std::uint64_t explained_generation(const std::vector<record_file>& files) {
  std::uint64_t last = 0, of_dead = 0;
  for (const auto& [path, record] : files) {
    const auto generation = last_generation(record);
    last = std::max(last, generation);
    if (record.copied && !record.copied->ending.empty() && !record.copied->told_to_end)
      of_dead = std::max(of_dead, generation);
  }
  return of_dead != 0 ? of_dead : last;
}

} // namespace

record_files read_record_files(const std::vector<std::string>& paths) {
  record_files found;
  for (const auto& path : paths) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored))
      read_folder(path, found);
    else
      read_file(path, found);
  }
  return found;
}

std::vector<rank_activity> activities_in(record_files& found, const tick_reading& reading) {
  keep_one_job(found);
  const auto generation = explained_generation(found.files);
  // The process that took a rank last comes last.
  std::ranges::stable_sort(found.files, {},
                           [](const record_file& file) { return file.record.origin.system; });
  std::vector<const event_record*> records;
  for (const auto& file : found.files)
    records.push_back(&file.record);
  const host_clocks clocks(records, reading);
  std::vector<rank_activity> activities;
  std::map<std::int32_t, std::size_t> position; // in `activities`, by rank
  std::map<std::int32_t, std::string> path;     // by rank
  for (std::size_t i = 0; i < found.files.size(); ++i) {
    const auto& file = found.files[i];
    auto activity = activity_in(file.record, generation, clocks.scale_of(file.record));
    activity.file = i;
    if (activity.rank < 0) {
      activities.push_back(std::move(activity));
      continue;
    }
    // A worker that ended in an earlier generation has nothing to do with this one.
    if (activity.generation != generation)
      continue;
    const auto rank = activity.rank;
    if (const auto [found_rank, is_new] = position.emplace(rank, activities.size()); is_new) {
      activities.push_back(std::move(activity));
    } else {
      found.problems.push_back(path[rank] + " is left out: " + file.path + " is a later record of rank " +
                               std::to_string(rank));
      activities[found_rank->second] = std::move(activity);
    }
    path[rank] = file.path;
  }
  return activities;
}

} // namespace farandole
