#include "tools/farandole/trace/merged_trace.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "collectives/operation.hpp"
#include "messages/record/event_kinds.hpp"
#include "messages/values/json_text.hpp"
#include "messages/values/printable.hpp"
#include "tools/farandole/explain/events_by_time.hpp"

namespace farandole {

namespace {

using std::chrono::nanoseconds;

/// Numbers of the tracks of a rank that belong to no thread.
constexpr std::uint32_t step_track = event_ring_limit, generation_track = event_ring_limit + 1;

struct named_tensor {
  std::uint16_t set = 0;
  std::string name;

  friend auto operator<=>(const named_tensor&, const named_tensor&) = default;
};

/// A round of the fast path, for the arrows between ranks.
struct round_key {
  named_tensor tensor;
  std::uint64_t round = 0;

  friend auto operator<=>(const round_key&, const round_key&) = default;
};

struct round_facts {
  std::optional<trace_position> last;    ///< publication
  std::vector<trace_position> completed; ///< where callers learned of the result
};

std::string operation_text(std::uint8_t recorded) {
  const auto number = recorded & static_cast<std::uint8_t>(~adasum_detail);
  if (static_cast<std::size_t>(number) >= operation_count)
    return "operation";
  return ((recorded & adasum_detail) != 0 ? "adasum " : "") +
         std::string(row_of(static_cast<operation>(number)).name);
}

/// Writes the events of one rank.
class rank_writer {
public:
  rank_writer(std::size_t index, const event_record& record, const tick_scale& scale, json_events& json,
              std::map<round_key, round_facts>& rounds)
      : index_(index), record_(record), scale_(scale), json_(json), rounds_(rounds) {}

  void write();

private:
  /// A call on the fast path that is not complete, or a wait.
  struct open_call {
    trace_position begin;
    std::uint8_t operation = 0;
    std::uint64_t bytes = 0;
    std::optional<std::uint64_t> round; ///< of a call on the fast path
    bool waits = false;                 ///< the caller waits for it
    bool settled = false;
  };
  struct running_path {
    trace_position begin;
    event entry;
  };

  trace_position at(const event& entry, std::uint32_t thread) const {
    return {index_, thread, scale_.system(entry.ticks)};
  }
  named_tensor tensor_of(const event& entry) const { return {entry.set, record_.name(entry.name)}; }
  void write_event(const event& entry, std::uint32_t thread);
  void submit(const event& entry, const trace_position& location);
  void settle(const event& entry, const trace_position& location);
  void end_wait(const event& entry, const trace_position& location);
  void complete(const named_tensor& tensor, const open_call& call, nanoseconds end);
  void begin_path(const event& entry, const trace_position& location);
  void end_path(const event& entry, const trace_position& location);
  void end_generation(nanoseconds time);

  std::size_t index_;
  const event_record& record_;
  tick_scale scale_;
  json_events& json_;
  std::map<round_key, round_facts>& rounds_;
  transfer_names names_;
  std::map<named_tensor, open_call> calls_;
  std::map<named_tensor, trace_position> submitted_;              ///< last call through the leader
  std::map<transfer_key, std::vector<trace_position>> scheduled_; ///< calls that a bundle carries
  std::map<std::uint32_t, running_path> paths_;                   ///< by thread
  std::map<std::uint32_t, nanoseconds> free_; ///< by thread: the end of its last slice; slices do not overlap
  std::optional<trace_position> step_, generation_;
  std::uint64_t generation_number_ = 0;
  std::uint64_t moved_bytes_ = 0;
  nanoseconds blocked_{0};
};

void rank_writer::write() {
  const auto& member = record_.member;
  json_.name_process(index_, "rank " + std::to_string(member.rank) + " on " + member.host);
  for (std::uint32_t thread = 0; thread < record_.threads.size(); ++thread)
    json_.name_thread(index_, thread, record_.threads[thread].name);
  json_.name_thread(index_, step_track, "steps");
  json_.name_thread(index_, generation_track, "generations");
  nanoseconds last{0};
  for (const auto& found : events_by_time(record_)) {
    names_.follow(*found.entry);
    write_event(*found.entry, found.thread);
    last = at(*found.entry, found.thread).time;
  }
  // Calls and transfers that had not ended are the interesting ones of a job that hangs.
  for (const auto& [tensor, call] : calls_)
    if (call.waits || call.round)
      complete(tensor, call, last);
  for (const auto& [thread, path] : paths_)
    json_.slice(path.begin, last, record_.name(path.entry.name) + " " + operation_text(path.entry.detail),
                field("bundle", path.entry.first));
  end_generation(last);
}

void rank_writer::write_event(const event& entry, std::uint32_t thread) {
  const auto location = at(entry, thread);
  switch (entry.kind) {
  case event_kind::submitted:
  case event_kind::published:
    return submit(entry, location);
  case event_kind::wait_begin: {
    auto& call = calls_[tensor_of(entry)];
    if (!call.round)
      call.begin = location;
    call.waits = true;
    return;
  }
  case event_kind::wait_end:
    return end_wait(entry, location);
  case event_kind::settled:
    return settle(entry, location);
  case event_kind::scheduled:
    if (const auto call = submitted_.find(tensor_of(entry)); call != submitted_.end())
      scheduled_[names_.key_of(entry)].push_back(call->second);
    return;
  case event_kind::path_begin:
    return begin_path(entry, location);
  case event_kind::path_end:
    return end_path(entry, location);
  case event_kind::step: {
    const trace_position on_track{index_, step_track, location.time};
    if (step_)
      json_.slice(*step_, location.time, "step " + std::to_string(entry.first));
    step_ = on_track;
    return;
  }
  case event_kind::generation_begin:
    end_generation(location.time);
    generation_ = trace_position{index_, generation_track, location.time};
    generation_number_ = entry.first;
    return;
  case event_kind::generation_end:
    json_.instant({index_, generation_track, location.time}, "end: " + record_.name(entry.name));
    return end_generation(location.time);
  case event_kind::ready:
    return json_.instant(location, "ready: " + record_.name(entry.name),
                         field("nanoseconds between the first and the last rank", entry.first) + "," +
                             field("first rank", high_half(entry.second)) + "," +
                             field("last rank", low_half(entry.second)));
  case event_kind::cut:
    return json_.instant(location,
                         "bundle started: " + std::string(to_string(static_cast<cut_trigger>(entry.detail))),
                         field("bundle", entry.first) + "," + field("tensors", entry.second));
  case event_kind::stall:
    return json_.instant({index_, generation_track, location.time}, "stall: " + record_.name(entry.name),
                         field("nanoseconds", entry.first) + "," + field("missing rank", entry.second));
  case event_kind::gap:
    return json_.instant(location, "gap: " + std::to_string(entry.first) + " events are missing before this");
  case event_kind::link_up:
  case event_kind::link_down:
  case event_kind::set_begin:
  case event_kind::set_end:
  case event_kind::joined:
    if (const auto* row = find_event_row(entry.kind))
      json_.instant(location, std::string(row->text) + " " + std::to_string(entry.first));
    return;
  default:
    return; // details of negotiation, which these events contain
  }
}

void rank_writer::submit(const event& entry, const trace_position& location) {
  const auto tensor = tensor_of(entry);
  open_call call{location, entry.detail, entry.first, {}, false, false};
  if (entry.kind == event_kind::published) {
    call.round = entry.second;
    auto& round = rounds_[{tensor, entry.second}];
    if (!round.last || round.last->time < location.time)
      round.last = location;
  } else {
    submitted_[tensor] = location;
    json_.slice(location, location.time, "submit " + tensor.name, field("bytes", entry.first));
  }
  calls_[tensor] = call;
}

void rank_writer::settle(const event& entry, const trace_position& location) {
  const auto tensor = tensor_of(entry);
  const auto found = calls_.find(tensor);
  if (found == calls_.end())
    return;
  if (found->second.round && entry.first == *found->second.round + 1) {
    moved_bytes_ += found->second.bytes;
    json_.counter(index_, location.time, "bytes", static_cast<double>(moved_bytes_));
    rounds_[{tensor, *found->second.round}].completed.push_back(
        {index_, found->second.begin.thread, location.time});
  }
  found->second.settled = true;
  if (found->second.waits)
    return; // the end of the wait completes it
  const auto call = calls_.extract(found).mapped();
  if (call.round)
    complete(tensor, call, location.time);
}

void rank_writer::end_wait(const event& entry, const trace_position& location) {
  const auto tensor = tensor_of(entry);
  const auto found = calls_.find(tensor);
  if (found == calls_.end() || !found->second.waits)
    return;
  auto call = calls_.extract(found).mapped();
  call.settled = true;
  complete(tensor, call, location.time);
  blocked_ += location.time - call.begin.time;
  json_.counter(index_, location.time, "blocked ms", static_cast<double>(blocked_.count()) * 1e-6);
}

/// The slice of a call on the fast path, or of a wait. A caller may have begun it before it ended another one.
void rank_writer::complete(const named_tensor& tensor, const open_call& call, nanoseconds end) {
  auto begin = call.begin;
  auto& free = free_[begin.thread];
  begin.time = std::max(begin.time, free);
  free = std::max(free, end);
  auto name = (call.round ? "" : "wait for ") + (tensor.name.empty() ? "a tensor" : tensor.name);
  if (tensor.set != 0)
    name += " of process set " + std::to_string(tensor.set);
  if (!call.settled)
    name += " (not complete)";
  json_.slice(begin, end, name,
              call.round ? field("bytes", call.bytes) + "," + field("round", *call.round) : "");
}

void rank_writer::begin_path(const event& entry, const trace_position& location) {
  paths_[location.thread] = {location, entry};
  if (const auto carried = scheduled_.extract(names_.key_of(entry)))
    for (const auto& call : carried.mapped())
      json_.arrow(call, location, "transfer");
}

void rank_writer::end_path(const event& entry, const trace_position& location) {
  const auto found = paths_.extract(location.thread);
  if (!found)
    return;
  const auto& path = found.mapped();
  auto arguments = field("bundle", entry.first) + "," + field("bytes", path.entry.second);
  if (entry.second != std::numeric_limits<std::uint64_t>::max())
    arguments += "," + field("nanoseconds spent waiting for other ranks", entry.second);
  json_.slice(path.begin, location.time,
              record_.name(path.entry.name) + " " + operation_text(path.entry.detail) +
                  (entry.detail == 0 ? "" : " (failed)"),
              arguments);
  moved_bytes_ += path.entry.second;
  json_.counter(index_, location.time, "bytes", static_cast<double>(moved_bytes_));
}

void rank_writer::end_generation(nanoseconds time) {
  if (generation_)
    json_.slice(*generation_, time, "generation " + std::to_string(generation_number_));
  generation_.reset();
}

std::string facts_of(const merged_trace& trace) {
  std::string hosts;
  for (const auto& [host, clock] : trace.clocks)
    hosts += (hosts.empty() ? "" : ",") + json_text(printable(host)) +
             ":{\"clock_offset_ns\":" + std::to_string(clock.offset.count()) +
             ",\"error_ns\":" + (clock.error ? std::to_string(clock.error->count()) : "null") +
             ",\"contradiction_ns\":" + std::to_string(clock.contradiction.count()) +
             ",\"measured\":" + (clock.measured ? "true" : "false") + "}";
  return "{\"ranks\":" + std::to_string(trace.ranks) + ",\"events\":" + std::to_string(trace.events) +
         ",\"dropped_events\":" + std::to_string(trace.dropped) +
         ",\"worst_error_ns\":" + std::to_string(trace.worst_error.count()) + ",\"hosts\":{" + hosts + "}}";
}

} // namespace

merged_trace merge_records(const std::vector<event_record>& records, const tick_reading& reading,
                           const std::vector<foreign_moment>& foreign) {
  std::vector<const event_record*> members;
  for (const auto& record : records)
    if (record.member.rank >= 0)
      members.push_back(&record);
  std::ranges::stable_sort(members, {}, [](const auto* record) { return record->member.rank; });
  merged_trace trace;
  trace.ranks = members.size();
  if (members.empty())
    return trace;
  const host_clocks clocks(members, reading);
  trace.reference = clocks.reference();
  trace.clocks = clocks.offsets();
  trace.worst_error = clocks.worst_error();
  auto start = nanoseconds::max();
  for (const auto* record : members) {
    const auto scale = clocks.scale_of(*record);
    for (const auto& thread : record->threads) {
      trace.events += thread.events.size();
      trace.dropped += thread.dropped;
      for (const auto& entry : thread.events) {
        start = std::min(start, scale.system(entry.ticks));
        if (entry.kind == event_kind::gap)
          trace.dropped += static_cast<std::size_t>(entry.first);
      }
    }
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto& record = *members[i];
    const auto scale = clocks.scale_of(record);
    const auto position = [&](const tick_reading& time) { return scale.system(time.ticks); };
    const auto& end = record.copied ? record.copied->time : reading;
    const auto axis =
        trace.axes.emplace(&record - records.data(),
                           trace_process{i, {record.origin, position(record.origin), end, position(end)}});
    for (const auto& moment : foreign)
      if (&records[moment.record] == &record)
        start = std::min(start, axis.first->second.axis.at(moment.time));
  }
  json_events json(start);
  std::map<round_key, round_facts> rounds;
  for (std::size_t i = 0; i < members.size(); ++i)
    rank_writer(i, *members[i], clocks.scale_of(*members[i]), json, rounds).write();
  for (const auto& [key, round] : rounds)
    for (const auto& end : round.completed)
      if (round.last && round.last->rank != end.rank && round.last->time <= end.time)
        json.arrow(*round.last, end, "last rank");
  trace.json = "{\"displayTimeUnit\":\"ns\",\"metadata\":" + facts_of(trace) + ",\n\"traceEvents\":[\n" +
               json.take() + trace_end;
  trace.events_after = std::move(json);
  return trace;
}

} // namespace farandole
