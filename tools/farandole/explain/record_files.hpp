// Reads the event records of a job from files, and leaves out those that do not belong together.
#pragma once

#include <string>
#include <vector>

#include "messages/record/event_reader.hpp"
#include "tools/farandole/explain/rank_activity.hpp"

namespace farandole {

struct record_file {
  std::string path;
  event_record record;
};

struct record_files {
  std::vector<record_file> files;
  std::vector<std::string> problems; ///< each with the file's path, for the user
  std::vector<std::string> notices;  ///< about files that were read, likewise
};

/// Each path is a file or a folder with files *.events (records) or *.trace (packed traces). A file that cannot be used is a problem, and the others are read.
record_files read_record_files(const std::vector<std::string>& paths);

/// What the ranks of one job were doing: of the job with most records, in the generation of a process that has died, since
/// the others may have continued without it; otherwise in the last one. Of two records of one rank, the later one counts.
/// Records that are left out because they cannot belong together are problems. Times are those of the host of the lowest rank
/// (host_clocks.hpp). `reading`: the time of this host's clocks.
std::vector<rank_activity> activities_in(record_files& found, const tick_reading& reading);

} // namespace farandole
