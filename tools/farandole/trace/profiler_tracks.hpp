// Shows the events of other profilers as tracks of the rank whose process wrote them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "messages/record/event_reader.hpp"
#include "messages/values/error.hpp"
#include "tools/farandole/trace/json_events.hpp"
#include "tools/farandole/trace/profiler_event.hpp"
#include "tools/farandole/trace/system_axis.hpp"

namespace farandole {

/// The index of the record of the rank that wrote a file: the one with the process id of its events; otherwise the rank
/// that the path names (rank-3, rank_3 or rank3), or the one that torch.distributed had; otherwise the only rank of its
/// host. The events must be from the time of the record, which ends at `now` if the record is no copy.
expected<std::size_t> record_of(const std::string& path, const profiler_facts& facts,
                                const std::vector<event_record>& records, std::chrono::nanoseconds now);

/// The times, since 1970, of which events are shown: from an hour before the record to an hour after the end.
std::pair<std::chrono::nanoseconds, std::chrono::nanoseconds> shown_times(const event_record& record,
                                                                          std::chrono::nanoseconds now);

/// The tracks of one rank, of any number of files.
class profiler_tracks {
public:
  /// `process`: the number of the rank's process in the trace. `own_process`: its process id, which tracks need not name.
  profiler_tracks(std::size_t process, std::uint32_t own_process, const system_axis& axis,
                  std::pair<std::chrono::nanoseconds, std::chrono::nanoseconds> shown)
      : process_(process), own_process_(std::to_string(own_process)), axis_(axis), shown_(shown) {}

  /// The following events are of another file, of the profiler `profiler`, and count from `base`.
  void begin_file(const std::string& profiler, std::chrono::nanoseconds base);
  void add(const profiler_event& event, json_events& json);

  std::size_t shown() const { return count_; }
  /// Events of other times, and of more threads or arrows than are kept.
  std::size_t left_out() const { return left_out_; }

private:
  using thread_key = std::pair<std::string, std::string>; // process and thread, as the file names them

  /// The number of the thread in the trace; 0: there are too many.
  std::uint32_t thread_of(const profiler_event& event, json_events& json);
  std::uint64_t id_of(const profiler_event& event, json_events& json);

  std::size_t process_;
  std::string own_process_;
  system_axis axis_;
  std::pair<std::chrono::nanoseconds, std::chrono::nanoseconds> shown_;
  std::string profiler_;
  std::chrono::nanoseconds base_{0};
  std::map<thread_key, std::string> names_; ///< that the file gives
  std::map<thread_key, std::uint32_t> threads_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> ids_; ///< by category and id
  std::uint32_t thread_count_ = 0;
  std::size_t count_ = 0, left_out_ = 0;
};

} // namespace farandole
