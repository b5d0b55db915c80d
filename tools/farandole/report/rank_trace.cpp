#include "tools/farandole/report/rank_trace.hpp"

#include <algorithm>

#include "tools/farandole/explain/events_by_time.hpp"

namespace farandole {

namespace {

class trace_reader {
public:
  trace_reader(const event_record& record, const tick_scale& scale, record_time origin,
               traced_tensors& tensors)
      : record_(record), scale_(scale), origin_(origin), tensors_(tensors) {}

  void follow(const event& entry, std::size_t thread);
  rank_trace finish();
  trace_time time_of(const event& entry) const { return scale_.system(entry.ticks) - origin_; }

private:
  /// The last call of a tensor.
  struct tensor_state {
    std::size_t call = 0;
    bool open = false; ///< it has not settled
  };

  std::uint32_t tensor_of(const event& entry);
  traced_call* open_call(const event& entry);
  void call(const event& entry);
  void begin_wait(const event& entry, std::size_t thread);
  void end_wait(const event& entry, std::size_t thread);
  void end_path(const event& entry);

  const event_record& record_;
  tick_scale scale_;
  record_time origin_;
  traced_tensors& tensors_;
  rank_trace trace_;
  std::map<std::pair<std::uint16_t, std::uint32_t>, std::uint32_t> tensor_by_name_;
  std::map<std::uint32_t, tensor_state> states_;                            ///< by tensor
  std::map<std::size_t, std::pair<std::uint32_t, traced_wait>> open_waits_; ///< by thread, with the tensor
  std::map<bundle_key, traced_transfer> open_paths_;
};

void trace_reader::follow(const event& entry, std::size_t thread) {
  trace_.end = time_of(entry);
  switch (entry.kind) {
  case event_kind::submitted:
  case event_kind::published:
    return call(entry);
  case event_kind::settled:
    if (auto* found = open_call(entry)) {
      found->settled = time_of(entry);
      if (entry.first == 0)
        found->round.reset(); // it was retracted from the fast path
      states_[found->tensor].open = false;
    }
    return;
  case event_kind::scheduled:
    if (auto* found = open_call(entry)) {
      found->sequence = entry.first;
      found->scheduled = time_of(entry);
    }
    return;
  case event_kind::ready:
    if (auto* found = open_call(entry))
      found->ready = {time_of(entry), static_cast<std::int32_t>(entry.second & 0xffffffffU)};
    return;
  case event_kind::wait_begin:
    return begin_wait(entry, thread);
  case event_kind::wait_end:
    return end_wait(entry, thread);
  case event_kind::path_begin:
    open_paths_[{entry.set, entry.first}] = {entry.detail, time_of(entry), time_of(entry)};
    return;
  case event_kind::path_end:
    return end_path(entry);
  case event_kind::step:
    trace_.marks.push_back({entry.first, time_of(entry)});
    return;
  default:
    return;
  }
}

// Two threads that record a name for the first time may give it two indices.
std::uint32_t trace_reader::tensor_of(const event& entry) {
  const std::pair key(entry.set, entry.name);
  const auto found = tensor_by_name_.find(key);
  if (found != tensor_by_name_.end())
    return found->second;
  return tensor_by_name_[key] = tensors_.index_of({entry.set, record_.name(entry.name)});
}

traced_call* trace_reader::open_call(const event& entry) {
  const auto found = states_.find(tensor_of(entry));
  return found == states_.end() || !found->second.open ? nullptr : &trace_.calls[found->second.call];
}

// A call that moves from the fast path to the leader is one call.
void trace_reader::call(const event& entry) {
  const bool on_fast_path = entry.kind == event_kind::published;
  if (auto* moved = open_call(entry); moved && !on_fast_path) {
    moved->round.reset();
    return;
  }
  traced_call fresh;
  fresh.tensor = tensor_of(entry);
  fresh.called = time_of(entry);
  if (on_fast_path)
    fresh.round = entry.second;
  states_[fresh.tensor] = {trace_.calls.size(), true};
  trace_.calls.push_back(fresh);
}

// A caller waits for one operation at a time.
void trace_reader::begin_wait(const event& entry, std::size_t thread) {
  traced_wait wait;
  wait.begin = time_of(entry);
  const auto tensor = tensor_of(entry);
  if (const auto found = states_.find(tensor); found != states_.end())
    wait.call = found->second.call;
  open_waits_[thread] = {tensor, wait};
}

void trace_reader::end_wait(const event& entry, std::size_t thread) {
  const auto found = open_waits_.find(thread);
  if (found == open_waits_.end())
    return;
  auto [tensor, wait] = found->second;
  open_waits_.erase(found);
  if (tensor != tensor_of(entry))
    return;
  wait.end = time_of(entry);
  trace_.waits.push_back(wait);
}

void trace_reader::end_path(const event& entry) {
  const bundle_key bundle(entry.set, entry.first);
  const auto begun = open_paths_.find(bundle);
  if (begun == open_paths_.end())
    return;
  const auto end = time_of(entry);
  const auto length = std::max(end - begun->second.begin, trace_time{0});
  auto& transfer = trace_.transfers.try_emplace(bundle, begun->second).first->second;
  transfer.end = end;
  transfer.ran += length;
  const trace_time waited(static_cast<std::int64_t>(entry.second));
  transfer.waited += std::clamp(waited, trace_time{0}, length);
  open_paths_.erase(begun);
}

rank_trace trace_reader::finish() {
  std::ranges::stable_sort(trace_.waits, {}, &traced_wait::begin);
  return std::move(trace_);
}

} // namespace

std::uint32_t traced_tensors::index_of(const tensor_key& tensor) {
  const auto [found, is_new] = index_.emplace(tensor, static_cast<std::uint32_t>(tensors_.size()));
  if (is_new)
    tensors_.push_back(tensor);
  return found->second;
}

rank_trace trace_of(const event_record& record, const rank_activity& activity, const tick_scale& scale,
                    record_time origin, traced_tensors& tensors) {
  trace_reader reader(record, scale, origin, tensors);
  const auto events = events_by_time(record);
  const auto enters = [&](const thread_event& found) {
    return found.entry->kind == event_kind::generation_begin && found.entry->first == activity.generation;
  };
  const auto entered = std::ranges::find_if(events, enters);
  const bool has_begin = entered != events.end();
  for (auto next = has_begin ? entered : events.begin(); next != events.end(); ++next) {
    const auto& entry = *next->entry;
    if (entry.kind == event_kind::generation_begin && entry.first > activity.generation)
      break;
    if (activity.failure && entry.ticks >= activity.failure_ticks)
      break;
    reader.follow(entry, next->thread);
  }
  auto trace = reader.finish();
  trace.rank = activity.rank;
  trace.host = activity.host;
  trace.whole = has_begin;
  trace.begin = trace_time::min();
  if (!events.empty())
    trace.begin = reader.time_of(*(has_begin ? entered->entry : events.front().entry));
  for (const auto& thread : record.threads) {
    if (thread.dropped == 0 || thread.events.empty())
      continue;
    const auto first = reader.time_of(thread.events.front());
    if (first <= trace.begin && has_begin)
      continue;
    trace.begin = std::max(trace.begin, first);
    trace.whole = false;
  }
  return trace;
}

} // namespace farandole
