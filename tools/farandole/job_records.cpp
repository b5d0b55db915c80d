#include "tools/farandole/job_records.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "actors/launch/process_keeper.hpp"
#include "actors/launch/record_folder.hpp"
#include "actors/member/job_call.hpp"
#include "messages/values/json_text.hpp"

namespace farandole {

namespace {

record_files records_of_job(const job_record& job) {
  record_files none;
  // The keeper removes the folder at the end of this function, and also if a signal ends this process before.
  const auto keeper = process_keeper::start();
  const auto folder = keeper ? make_temporary_record_folder() : expected<std::string>(keeper.error());
  if (!folder) {
    none.problems.push_back(folder.error().text);
    return none;
  }
  keeper->remove_at_end(*folder);
  write_records request;
  request.folder = *folder;
  const auto written = records_by_launcher(job, request);
  if (!written) {
    none.problems.push_back(written.error().text);
    return none;
  }
  if (written->files == 0) {
    none.problems = written->notices;
    none.problems.push_back("job " + job.name +
                            " has no workers with a record now (FARANDOLE_RECORDER_EVENTS=0 disables it)");
    return none;
  }
  auto found = read_record_files({*folder});
  found.problems.insert(found.problems.begin(), written->notices.begin(), written->notices.end());
  return found;
}

bool is_path(const std::string& word) {
  std::error_code ignored;
  return word.find('/') != std::string::npos || std::filesystem::exists(word, ignored);
}

} // namespace

expected<records_written> records_by_launcher(const job_record& job, const write_records& request,
                                              std::chrono::seconds longest) {
  job_call call({job.ip, job.port, job.secret}, encode(request),
                [](const envelope& answer) -> expected<bool> {
                  const auto written = decode_records_written(answer);
                  return written ? expected<bool>(true) : written.error();
                });
  const auto answer = call.next(longest);
  auto written = answer ? decode_records_written(*answer) : expected<records_written>(answer.error());
  if (!request.folder.empty() && (!written || written->files == 0)) {
    std::error_code ignored;
    std::filesystem::remove_all(request.folder, ignored);
  }
  if (!answer)
    return error{answer.error().kind,
                 "job " + job.name +
                     (answer.error().kind == error_kind::precondition ? " refused: " : " does not answer: ") +
                     answer.error().text};
  if (written && !written->problem.empty())
    return error{error_kind::unknown, "job " + job.name + ": " + written->problem};
  return written;
}

expected<std::string> make_output_folder(const std::string& wanted) {
  if (!wanted.empty()) {
    const auto path = std::filesystem::absolute(wanted).lexically_normal().string();
    if (::mkdir(path.c_str(), 0700) != 0)
      return error{error_kind::unknown, path + " cannot be made: " + std::strerror(errno) +
                                            "; --output must name a folder that does not exist"};
    return path;
  }
  const auto parent = record_folders_of_this_user();
  if (parent.empty())
    return error{error_kind::precondition, "this user has no home folder: name a folder with --output"};
  return make_record_folder(parent, std::chrono::system_clock::now());
}

std::string json_of(const records_written& written, const std::string& folder) {
  std::string notices;
  for (const auto& notice : written.notices)
    notices += (notices.empty() ? "" : ", ") + json_text(notice);
  return "{\"folder\": " + json_text(folder) + ", \"files\": " + std::to_string(written.files) +
         ", \"missing\": [" + notices + "]}";
}

record_files records_named(const std::vector<std::string>& words) {
  const auto wanted = words.empty() ? std::string() : words.front();
  if (words.size() > 1 || (is_path(wanted) && !wanted.ends_with(".job")))
    return read_record_files(words);
  const auto job = find_job(wanted, job_kind::any);
  if (job)
    return records_of_job(*job);
  record_files none;
  none.problems.push_back(job.error().text);
  return none;
}

} // namespace farandole
