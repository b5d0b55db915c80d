#include "tools/farandole/explain/explanation.hpp"

#include <algorithm>
#include <set>

#include "collectives/negotiation/departure_report.hpp"
#include "collectives/operation.hpp"
#include "messages/record/event_kinds.hpp"

namespace farandole {

namespace {

/// Inputs of these operations have the same size on all ranks.
bool has_equal_inputs(std::uint8_t recorded) {
  const auto number = recorded & static_cast<std::uint8_t>(~adasum_detail);
  return static_cast<std::size_t>(number) < operation_count &&
         !row_of(static_cast<operation>(number)).first_dim_free();
}

/// Whether its caller waits for a call that the other rank has neither made nor completed.
bool waits_in_vain(const rank_activity& caller, const tensor_key& tensor, const rank_activity& other) {
  return !other.has_pending(tensor) && !other.has_passed(caller, tensor);
}

// Each waits for a tensor that the other has not called.
std::optional<order_conflict> conflict_between(const rank_activity& first, const rank_activity& other) {
  for (const auto& [tensor, since] : first.waits)
    for (const auto& [other_tensor, other_since] : other.waits)
      if (tensor.set == other_tensor.set && waits_in_vain(first, tensor, other) &&
          waits_in_vain(other, other_tensor, first))
        return order_conflict{first.rank, tensor, other.rank, other_tensor};
  return std::nullopt;
}

/// Leaves out texts that contain another one: ranks repeat the reason that another rank gave. That a rank has left is a
/// reason only if there is no other.
void keep_shortest(std::vector<std::string>& reasons) {
  if (reasons.size() > 1)
    std::erase(reasons, own_departure);
  const auto all = reasons;
  std::erase_if(reasons, [&](const std::string& reason) {
    return std::ranges::any_of(all, [&](const std::string& other) {
      return other.size() < reason.size() && reason.find(other) != std::string::npos;
    });
  });
}

class job_reader {
public:
  job_reader(const std::vector<rank_activity>& activities, record_time read_at);
  explanation explain();

private:
  const rank_activity* find(std::int32_t rank) const;
  /// Of the ranks of a set: all, or those whose records say that they belong to it.
  std::vector<std::int32_t> members_of(std::uint16_t set) const;
  std::set<tensor_key> tensors_where(bool (*holds)(const tensor_calls& calls)) const;
  pending_tensor describe(const tensor_key& tensor, bool (*holds)(const tensor_calls& calls)) const;
  rank_state state_of(const rank_activity& activity) const;
  void find_conflicts();
  void find_late_calls();
  void compare_counts();

  std::map<std::int32_t, const rank_activity*> members_; ///< by rank
  std::vector<const rank_activity*> others_;             ///< processes that are no members
  explanation result_;
};

bool is_pending(const tensor_calls& calls) {
  return calls.pending;
}

bool is_mismatch(const tensor_calls& calls) {
  return !calls.pending && calls.problem == error_kind::mismatch;
}

job_reader::job_reader(const std::vector<rank_activity>& activities, record_time read_at) {
  result_.time = read_at;
  std::optional<record_time> failure, copied;
  for (const auto& activity : activities) {
    if (activity.rank >= 0)
      members_[activity.rank] = &activity;
    else
      others_.push_back(&activity);
    if (activity.failure)
      failure = std::min(failure.value_or(*activity.failure), *activity.failure);
    if (activity.copied)
      copied = std::max(copied.value_or(*activity.copied), *activity.copied);
    result_.size = std::max(result_.size, activity.size);
    result_.generation = std::max(result_.generation, activity.generation);
    if (!activity.reason.empty() &&
        std::ranges::find(result_.reasons, activity.reason) == result_.reasons.end())
      result_.reasons.push_back(activity.reason);
  }
  keep_shortest(result_.reasons);
  result_.ended = failure.has_value();
  result_.running =
      !failure && copied && std::ranges::all_of(activities, &std::string::empty, &rank_activity::ending);
  result_.time = failure.value_or(copied.value_or(read_at));
}

explanation job_reader::explain() {
  for (const auto& tensor : tensors_where(is_pending))
    result_.pending.push_back(describe(tensor, is_pending));
  std::ranges::stable_sort(result_.pending, {}, &pending_tensor::since);
  for (const auto& tensor : tensors_where(is_mismatch))
    result_.mismatched.push_back(describe(tensor, is_mismatch));
  for (std::int32_t rank = 0; rank < result_.size; ++rank) {
    const auto* activity = find(rank);
    if (activity) {
      result_.ranks.push_back(state_of(*activity));
    } else {
      rank_state unknown;
      unknown.rank = rank;
      result_.ranks.push_back(unknown);
    }
  }
  std::ranges::stable_sort(others_, {}, &rank_activity::slot);
  for (const auto* activity : others_)
    result_.ranks.push_back(state_of(*activity));
  find_conflicts();
  find_late_calls();
  compare_counts();
  return std::move(result_);
}

const rank_activity* job_reader::find(std::int32_t rank) const {
  const auto found = members_.find(rank);
  return found == members_.end() ? nullptr : found->second;
}

std::vector<std::int32_t> job_reader::members_of(std::uint16_t set) const {
  std::vector<std::int32_t> ranks;
  for (std::int32_t rank = 0; rank < result_.size; ++rank) {
    const auto* activity = find(rank);
    if (set == 0 || (activity && activity->sets.contains(set)))
      ranks.push_back(rank);
  }
  return ranks;
}

std::set<tensor_key> job_reader::tensors_where(bool (*holds)(const tensor_calls& calls)) const {
  std::set<tensor_key> tensors;
  for (const auto& [rank, activity] : members_)
    for (const auto& [tensor, calls] : activity->tensors)
      if (holds(calls))
        tensors.insert(tensor);
  return tensors;
}

pending_tensor job_reader::describe(const tensor_key& tensor,
                                    bool (*holds)(const tensor_calls& calls)) const {
  pending_tensor result;
  result.tensor = tensor;
  const auto ranks = members_of(tensor.set);
  // Of ranks in different calls, the row describes the latest one.
  const rank_activity* latest = nullptr;
  for (const auto rank : ranks)
    if (const auto* activity = find(rank))
      if (const auto* calls = activity->calls_of(tensor);
          calls && holds(*calls) && (!latest || activity->has_passed(*latest, tensor)))
        latest = activity;
  for (const auto rank : ranks) {
    const auto* activity = find(rank);
    const auto* calls = activity ? activity->calls_of(tensor) : nullptr;
    if (!activity) {
      result.unknown.push_back(rank);
    } else if (!calls || !holds(*calls)) {
      (latest && activity->has_passed(*latest, tensor) ? result.complete : result.missing).push_back(rank);
    } else if (latest->has_passed(*activity, tensor)) {
      result.missing.push_back(rank);
    } else if (result.called.empty()) {
      result.called.push_back(rank);
      result.operation = calls->operation;
      result.bytes = calls->bytes;
      result.since = calls->since;
    } else {
      result.called.push_back(rank);
      result.since = std::min(result.since, calls->since);
      const bool same_size = !has_equal_inputs(result.operation) || calls->bytes == result.bytes;
      if (calls->operation != result.operation || !same_size) {
        if (result.differs.empty()) {
          result.other_operation = calls->operation;
          result.other_bytes = calls->bytes;
        }
        result.differs.push_back(rank);
      }
    }
  }
  return result;
}

rank_state job_reader::state_of(const rank_activity& activity) const {
  rank_state state;
  state.rank = activity.rank;
  state.slot = activity.slot;
  state.host = activity.host;
  state.ending = activity.ending;
  state.told_to_end = activity.told_to_end;
  state.process = activity.process;
  state.state = activity.state;
  state.regroup = activity.regroup;
  if (activity.last) {
    state.tensor = activity.last->tensor;
    state.pending = activity.has_pending(activity.last->tensor);
    const auto* calls = activity.calls_of(activity.last->tensor);
    state.failed = calls && calls->problem != error_kind::none;
  }
  if (!activity.started) {
    state.work = rank_work::not_started;
  } else if (activity.is_gone()) {
    state.work = rank_work::gone;
    state.since = activity.last_event;
  } else if (activity.rank < 0) {
    state.work = rank_work::joining;
  } else if (!activity.waits.empty()) {
    const auto longest =
        std::ranges::min_element(activity.waits, {}, [](const auto& wait) { return wait.second; });
    state.work = rank_work::waiting;
    state.tensor = longest->first;
    state.pending = true;
    state.failed = false;
    state.since = longest->second;
  } else if (activity.path) {
    state.work = rank_work::on_path;
    state.path = activity.path->name;
    state.since = activity.path->since;
  } else if (activity.last) {
    state.work = rank_work::user_code;
    state.since = activity.last->time;
  } else {
    state.work = rank_work::no_call;
    state.since = activity.entered;
  }
  return state;
}

// A rank whose process is dead or cannot go on has not chosen another order.
void job_reader::find_conflicts() {
  const auto can_go_on = [](const rank_activity& activity) {
    return !activity.is_gone() && !is_held(activity.state);
  };
  for (const auto& [rank, activity] : members_)
    for (const auto& [other, other_activity] : members_)
      if (rank < other && can_go_on(*activity) && can_go_on(*other_activity))
        if (auto conflict = conflict_between(*activity, *other_activity))
          result_.conflicts.push_back(std::move(*conflict));
}

void job_reader::find_late_calls() {
  for (const auto& [rank, activity] : members_) {
    if (activity->reason.starts_with(left_by_itself))
      result_.left.push_back(rank);
    if (!activity->refused)
      continue;
    const auto& tensor = activity->refused->tensor;
    auto row = std::ranges::find(result_.late, tensor, &late_tensor::tensor);
    if (row == result_.late.end())
      row = result_.late.insert(row, late_tensor{tensor, {}});
    row->ranks.push_back(rank);
  }
}

// Where events were overwritten, the record does not show all calls.
void job_reader::compare_counts() {
  if (std::ranges::any_of(members_, [](const auto& member) { return member.second->dropped != 0; }))
    return;
  std::set<tensor_key> tensors;
  for (const auto& [rank, activity] : members_)
    for (const auto& [tensor, calls] : activity->tensors)
      tensors.insert(tensor);
  for (const auto& pending : result_.pending)
    tensors.erase(pending.tensor);
  for (const auto& tensor : tensors) {
    count_difference difference{tensor, {}};
    std::set<std::uint64_t> numbers;
    for (const auto rank : members_of(tensor.set))
      if (const auto* activity = find(rank)) {
        const auto* calls = activity->calls_of(tensor);
        numbers.insert(difference.calls[rank] = calls ? calls->count : 0);
      }
    if (numbers.size() > 1)
      result_.counts.push_back(std::move(difference));
  }
}

} // namespace

explanation explain_job(const std::vector<rank_activity>& activities, record_time read_at) {
  return job_reader(activities, read_at).explain();
}

} // namespace farandole
