#include "tools/farandole/trace/placed_profilers.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "tools/farandole/trace/profiler_tracks.hpp"

namespace farandole {

namespace {

constexpr std::size_t written_at_once = 1 << 20;

} // namespace

placed_profilers::placed_profilers(profiler_files found, const std::vector<event_record>& records,
                                   std::chrono::nanoseconds now)
    : records_(records), now_(now), problems_(std::move(found.problems)) {
  for (auto& file : found.files) {
    const auto record = record_of(file.path, file.facts, records, now);
    if (record)
      placed_.push_back({std::move(file), *record});
    else
      problems_.push_back(record.error().text);
  }
  std::ranges::stable_sort(placed_, {}, &placed_profiler::record);
}

std::vector<foreign_moment> placed_profilers::first_moments() const {
  std::vector<foreign_moment> moments;
  for (const auto& [file, record] : placed_)
    moments.push_back(
        {record, std::max(*file.facts.base + file.facts.first, shown_times(records_[record], now_).first)});
  return moments;
}

std::size_t placed_profilers::write(merged_trace& trace, std::ostream& target) {
  const std::string_view end = trace_end;
  target.write(trace.json.data(), static_cast<std::streamsize>(trace.json.size() - end.size()));
  std::map<std::size_t, profiler_tracks> ranks; // by record
  std::size_t shown = 0;
  auto& json = trace.events_after;
  for (const auto& [file, record] : placed_) {
    const auto& process = trace.axes.at(record);
    const auto& member = records_[record].member;
    const auto [entry, is_new] = ranks.try_emplace(record, process.number, records_[record].process,
                                                   process.axis, shown_times(records_[record], now_));
    auto& tracks = entry->second;
    if (is_new && process.axis.clock_change().count() != 0)
      problems_.push_back("the system clock of " + member.host + " was set by " +
                          std::to_string(process.axis.clock_change().count() / 1000) + " us while rank " +
                          std::to_string(member.rank) +
                          " ran, so earlier events of its profilers are shown too early or too late by this");
    const auto left_out = tracks.left_out();
    tracks.begin_file(file.profiler, *file.facts.base);
    read_profiler_file(file.path, [&](const profiler_event& event) {
      tracks.add(event, json);
      if (json.size() >= written_at_once)
        target << json.take();
    });
    if (tracks.left_out() > left_out)
      problems_.push_back(file.path + ": " + std::to_string(tracks.left_out() - left_out) +
                          " events are left out, because they are from another time or of too many threads");
  }
  for (const auto& [record, tracks] : ranks)
    shown += tracks.shown();
  target << json.take() << end;
  return shown;
}

} // namespace farandole
