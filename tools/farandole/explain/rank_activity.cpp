#include "tools/farandole/explain/rank_activity.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "messages/record/event_kinds.hpp"
#include "tools/farandole/explain/events_by_time.hpp"

namespace farandole {

namespace {

/// Whether the job has failed, or has ended, for a rank that receives this error. After other errors the rank goes on.
bool ends_generation(error_kind kind) {
  switch (kind) {
  case error_kind::disconnected:
  case error_kind::timed_out:
  case error_kind::shut_down:
  case error_kind::aborted:
  case error_kind::dismissed:
    return true;
  default:
    return false;
  }
}

error_kind kind_in(const event& entry) {
  return entry.detail < error_kind_count ? static_cast<error_kind>(entry.detail) : error_kind::unknown;
}

/// Follows the events of one record, in the order of their times. Tensors are found by number, because a record has
/// thousands of events of a few tensors.
class activity_reader {
public:
  activity_reader(const event_record& record, const tick_scale& scale, std::uint64_t generation)
      : record_(record), scale_(scale), generation_(generation) {}

  /// Returns false when the rank enters a later generation.
  bool follow(const event& entry);
  /// Before the first event: the facts that need no event.
  rank_activity& result() { return activity_; }
  rank_activity finish();

private:
  /// A tensor in the generation of the activity.
  struct tensor_state {
    tensor_calls calls; ///< count 0: neither a call nor a result is recorded
    std::optional<record_time> waits_since;
  };
  using named_state = std::pair<const tensor_key, tensor_state>;

  void enter(const event& entry);
  void follow_regroup(const event& entry);
  void follow_operation(const event& entry);
  void settle(named_state& tensor, const event& entry);
  void find_refusal(const event& entry);
  void fail_at(const event& entry);
  named_state& tensor_of(const event& entry);
  record_time time_of(const event& entry) const { return scale_.system(entry.ticks); }

  const event_record& record_;
  tick_scale scale_;
  std::uint64_t generation_;
  rank_activity activity_;
  std::map<tensor_key, tensor_state> tensors_;
  std::unordered_map<std::uint64_t, named_state*> by_number_; ///< by number of the set and of the name
  named_state* last_ = nullptr;                               ///< tensor of activity_.last
};

bool activity_reader::follow(const event& entry) {
  if (entry.kind == event_kind::generation_begin) {
    if (entry.first > generation_)
      return false;
    enter(entry);
  }
  activity_.last_event = time_of(entry);
  if (entry.kind == event_kind::generation_end) {
    activity_.reason = record_.name(entry.name).empty() ? "for an unknown reason" : record_.name(entry.name);
    if (!activity_.failure)
      fail_at(entry);
  }
  if (entry.kind == event_kind::settled)
    find_refusal(entry);
  follow_regroup(entry);
  // The rest are consequences of the failure.
  if (activity_.failure)
    return true;
  switch (entry.kind) {
  case event_kind::set_begin:
    if (entry.set != 0)
      activity_.sets.insert(entry.set);
    break;
  case event_kind::set_end:
    activity_.sets.erase(entry.set);
    break;
  case event_kind::joined:
    activity_.joined = time_of(entry);
    break;
  case event_kind::path_begin:
    activity_.path = {record_.name(entry.name), time_of(entry)};
    break;
  case event_kind::path_end:
    if (ends_generation(kind_in(entry)))
      fail_at(entry);
    else
      activity_.path.reset();
    break;
  default:
    follow_operation(entry);
  }
  return true;
}

void activity_reader::enter(const event& entry) {
  rank_activity fresh;
  fresh.sets = std::move(activity_.sets);
  activity_ = std::move(fresh);
  by_number_.clear();
  tensors_.clear();
  last_ = nullptr;
  activity_.generation = entry.first;
  activity_.entered = time_of(entry);
  activity_.size = static_cast<std::int32_t>(high_half(entry.second));
  activity_.rank = static_cast<std::int32_t>(low_half(entry.second));
}

void activity_reader::fail_at(const event& entry) {
  activity_.failure = time_of(entry);
  activity_.failure_ticks = entry.ticks;
}

// An operation that ends with the generation, and was not pending, was submitted after the end.
void activity_reader::find_refusal(const event& entry) {
  if (activity_.refused || !ends_generation(kind_in(entry)))
    return;
  const auto& [tensor, state] = tensor_of(entry);
  if (state.calls.count == 0 || !state.calls.pending)
    activity_.refused = {tensor, time_of(entry)};
}

// The end of a generation that the process has not entered means that it could not connect to its members.
void activity_reader::follow_regroup(const event& entry) {
  const auto phase = static_cast<regroup_phase>(entry.detail);
  if (entry.kind == event_kind::generation_end)
    activity_.regroup.reset();
  else if (entry.kind == event_kind::regroup &&
           (phase == regroup_phase::waiting || phase == regroup_phase::connecting))
    activity_.regroup = {phase, entry.first, time_of(entry)};
}

// Two threads that record a name for the first time may give it two numbers.
activity_reader::named_state& activity_reader::tensor_of(const event& entry) {
  auto& found = by_number_[std::uint64_t{entry.set} << 32 | entry.name];
  if (!found)
    found = &*tensors_.try_emplace({entry.set, record_.name(entry.name)}).first;
  return *found;
}

void activity_reader::follow_operation(const event& entry) {
  switch (entry.kind) {
  case event_kind::submitted:
  case event_kind::published: {
    auto& tensor = tensor_of(entry);
    auto& calls = tensor.second.calls;
    const auto time = time_of(entry);
    last_ = &tensor;
    activity_.last = {{}, time};
    // A call that moves from the fast path to the leader is one call.
    if (calls.count > 0 && calls.pending)
      break;
    ++calls.count;
    calls.pending = true;
    calls.problem = error_kind::none;
    calls.since = time;
    calls.operation = entry.detail;
    calls.bytes = entry.first;
    break;
  }
  case event_kind::settled:
    settle(tensor_of(entry), entry);
    break;
  case event_kind::wait_begin:
    tensor_of(entry).second.waits_since = time_of(entry);
    break;
  case event_kind::wait_end:
    if (ends_generation(kind_in(entry))) {
      fail_at(entry);
    } else {
      auto& tensor = tensor_of(entry);
      tensor.second.waits_since.reset();
      last_ = &tensor;
      activity_.last = {{}, time_of(entry)};
    }
    break;
  default:
    break;
  }
}

void activity_reader::settle(named_state& tensor, const event& entry) {
  const auto problem = kind_in(entry);
  if (ends_generation(problem))
    return fail_at(entry);
  auto& calls = tensor.second.calls;
  calls.count = std::max<std::uint64_t>(calls.count, 1); // the event of the call may have been overwritten
  calls.pending = false;
  calls.problem = problem;
  calls.completed_since = calls.since;
  calls.completed = time_of(entry);
}

rank_activity activity_reader::finish() {
  if (last_)
    activity_.last->tensor = last_->first;
  for (const auto& [tensor, state] : tensors_) {
    if (state.calls.count > 0)
      activity_.tensors.emplace_hint(activity_.tensors.end(), tensor, state.calls);
    // A caller whose result was there has only not woken up.
    if (state.waits_since && (state.calls.count == 0 || state.calls.pending))
      activity_.waits.emplace_hint(activity_.waits.end(), tensor, *state.waits_since);
  }
  return std::move(activity_);
}

} // namespace

bool is_held(char state) {
  return std::string_view("TtDZ").find(state) != std::string_view::npos;
}

const tensor_calls* rank_activity::calls_of(const tensor_key& tensor) const {
  const auto found = tensors.find(tensor);
  return found == tensors.end() ? nullptr : &found->second;
}

bool rank_activity::has_pending(const tensor_key& tensor) const {
  const auto* calls = calls_of(tensor);
  return calls && calls->pending;
}

record_time rank_activity::earlier_calls_end(const tensor_key& tensor) const {
  const auto* calls = calls_of(tensor);
  const auto completed = calls ? calls->completed : record_time{0};
  return completed.count() == 0 && dropped != 0 ? record_time::max() : std::max(completed, joined);
}

bool rank_activity::has_passed(const rank_activity& other, const tensor_key& tensor) const {
  const auto* calls = calls_of(tensor);
  return calls && calls->completed_since > other.earlier_calls_end(tensor);
}

std::uint64_t last_generation(const event_record& record) {
  auto last = record.member.generation;
  for (const auto& thread : record.threads)
    for (const auto& entry : thread.events)
      if (entry.kind == event_kind::generation_begin)
        last = std::max(last, entry.first);
  return last;
}

// Ticks of the steady clock are nanoseconds; of the counter, two readings give the rate.
double tick_length_of(const event_record& record, const tick_reading& reading) {
  const auto& later = record.copied ? record.copied->time : reading;
  const auto ticks = static_cast<double>(later.ticks - record.origin.ticks);
  const auto time = static_cast<double>((later.steady - record.origin.steady).count());
  return record.uses_counter && later.ticks != record.origin.ticks ? time / ticks : 1;
}

tick_scale scale_of(const event_record& record, const tick_reading& reading) {
  return {record.origin, tick_length_of(record, reading)};
}

rank_activity activity_in(const event_record& record, std::uint64_t generation, const tick_scale& scale) {
  activity_reader reader(record, scale, generation);
  // If the beginning of the generation was overwritten, the header tells the rank.
  reader.result().rank = record.member.rank;
  reader.result().size = record.member.size;
  reader.result().generation = record.member.generation;
  for (const auto& found : events_by_time(record))
    if (!reader.follow(*found.entry))
      break;
  auto activity = reader.finish();
  activity.size = std::clamp(activity.size, 0, most_ranks);
  activity.started = record.process != 0;
  activity.job = record.member.job;
  activity.host = record.member.host;
  for (const auto& thread : record.threads)
    activity.dropped += thread.dropped;
  if (record.copied) {
    // A process that has not called init() has no times of its own.
    activity.copied = activity.started ? scale.system(record.origin.ticks) +
                                             (record.copied->time.steady - record.origin.steady)
                                       : record.copied->time.system;
    activity.slot = record.copied->slot;
    activity.ending = record.copied->ending;
    activity.told_to_end = record.copied->told_to_end;
    activity.process = record.copied->process;
    activity.state = record.copied->state;
  }
  return activity;
}

rank_activity activity_in(const event_record& record, std::uint64_t generation, const tick_reading& reading) {
  return activity_in(record, generation, scale_of(record, reading));
}

} // namespace farandole
