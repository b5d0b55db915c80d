// The files of other profilers with the ranks that wrote them, and their way into the merged trace.
#pragma once

#include <chrono>
#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "messages/record/event_reader.hpp"
#include "tools/farandole/trace/merged_trace.hpp"
#include "tools/farandole/trace/profiler_files.hpp"

namespace farandole {

struct placed_profiler {
  profiler_file file;
  std::size_t record = 0; ///< index of the record of its rank
};

class placed_profilers {
public:
  /// Files that belong to no record are problems. `now`: since 1970, the end of records that are no copies.
  placed_profilers(profiler_files found, const std::vector<event_record>& records,
                   std::chrono::nanoseconds now);

  const std::vector<std::string>& problems() const { return problems_; }
  std::size_t files() const { return placed_.size(); }
  /// The first event of each file.
  std::vector<foreign_moment> first_moments() const;
  /// Writes the trace with the events of all files, and returns their number. Reads the files again, and takes memory for a
  /// part of one. Clocks that were set meanwhile are further problems.
  std::size_t write(merged_trace& trace, std::ostream& target);

private:
  const std::vector<event_record>& records_;
  std::chrono::nanoseconds now_;
  std::vector<placed_profiler> placed_; ///< by record
  std::vector<std::string> problems_;
};

} // namespace farandole
