// The event records that the words of a command name: those of a running job, or those in files.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/records.hpp"
#include "tools/farandole/cli/job_record.hpp"
#include "tools/farandole/explain/record_files.hpp"

namespace farandole {

/// Text for the help of such a command: what the words can be.
inline constexpr const char* record_words_help = R"(
Without an argument, and with the name of a job, the command asks the launcher of the running job for the records of all
its workers. This does not disturb them: a launcher, and the agent of each other host, hold the memory in which the
workers record, so workers that are stopped, or stuck in a C function, are included. The argument JOB is the name of a
job (farandole help drain), a FOLDER has been written by a launcher or by farandole dump, and a FILE is one record.)";

/// The longest time that a launcher takes to copy or write records. It waits for other hosts for a shorter time.
inline constexpr std::chrono::seconds longest_to_write{60};

/// Asks the job's launcher to copy the records of all workers, or to begin or end traces, and waits for the answer. If the
/// launcher has written no file into the folder that the request names, the folder is removed.
expected<records_written> records_by_launcher(const job_record& job, const write_records& request,
                                              std::chrono::seconds longest = longest_to_write);

/// Makes the folder that the user named, which must not exist; a new one, among those of failed jobs, if `wanted` is empty.
expected<std::string> make_output_folder(const std::string& wanted);

/// The answer of a launcher that has written records, as a JSON object.
std::string json_of(const records_written& written, const std::string& folder);

/// Reads the records that the words name: folders and files; or one running job of this user by its name or by the path of
/// its file; or, without words, the only one. Missing records are problems.
record_files records_named(const std::vector<std::string>& words);

} // namespace farandole
