#include "actors/submission/submission_queue.hpp"

#include <algorithm>
#include <cassert>
#include <unordered_set>
#include <utility>

#include "actors/submission/device_gate.hpp"
#include "actors/submission/nvtx_ranges.hpp"
#include "actors/submission/request_check.hpp"
#include "collectives/fusion/group.hpp"
#include "collectives/operation.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

// A group number that is the same on every rank and in every step, so that grouped tensors can use their ids, too.
std::uint32_t number_of(std::span<const submission> members) {
  std::vector<std::string_view> names;
  for (auto& member : members)
    names.push_back(member.name);
  return group_number(names);
}

} // namespace

submission_queue::submission_queue(std::uint32_t set, std::int32_t size, std::size_t capacity,
                                   std::function<void()> ring, std::vector<std::int32_t> ranks,
                                   set_epoch epoch, std::size_t fast_path_limit_bytes,
                                   std::shared_ptr<event_recorder> recorder,
                                   std::shared_ptr<const nvtx_ranges> ranges)
    : set_(set), size_(size), capacity_(capacity), ranks_(std::move(ranks)), epoch_(std::move(epoch)),
      fast_path_limit_bytes_(fast_path_limit_bytes), recorder_(std::move(recorder)),
      ranges_(std::move(ranges)), ring_(std::move(ring)) {}

// ---- framework threads ---------------------------------------------------------------------------

expected<operation_state_ptr> submission_queue::submit(const submission& request) {
  auto ready = admit_memory(request, size_);
  if (!ready)
    return ready.error();
  std::unique_lock guard(mutex_);
  read_news();
  if (table_.size() >= capacity_)
    table_.sweep();
  if (auto problem = check(request))
    return problem;
  auto* entry = table_.find(request.name);
  if (entry && entry->in_flight()) {
    if (settle_unlocked(guard, entry->last))
      return submit(request);
    return error{error_kind::invalid_argument,
                 printable_name(request.name) +
                     ": an operation of this name is already in flight in this process set; wait for it "
                     "(synchronize) or use another name"};
  }
  const auto come = admit(entry ? *entry : table_.at(request.name), request, 0, 0);
  come.operation->ready = std::move(*ready);
  enter({&come, 1});
  return come.operation;
}

expected<operation_state_ptr> submission_queue::submit(const set_change& change) {
  std::lock_guard guard(mutex_);
  if (ended_)
    return ended_;
  auto& entry = table_.at(set_change_name);
  if (entry.in_flight())
    return error{error_kind::invalid_argument,
                 "this rank is adding or removing a process set already; wait for that first"};
  auto operation = operation_state_ptr::make();
  operation->name = set_change_name;
  operation->queue = weak_from_this();
  entry.last = operation;
  enqueue(set_change_request{operation, change});
  return operation;
}

expected<std::vector<operation_state_ptr>>
submission_queue::submit_group(std::span<const submission> requests) {
  auto ready = admit_group_memory(requests, size_);
  if (!ready)
    return ready.error();
  std::unique_lock guard(mutex_);
  read_news();
  if (table_.size() >= capacity_)
    table_.sweep();
  std::unordered_set<std::string_view> names(requests.size());
  for (auto& request : requests) {
    if (auto problem = check(request))
      return problem;
    const auto* entry = table_.find(request.name);
    const bool in_flight = entry && entry->in_flight();
    if (in_flight && settle_unlocked(guard, entry->last))
      return submit_group(requests);
    if (in_flight || !names.insert(request.name).second)
      return error{error_kind::invalid_argument,
                   printable_name(request.name) +
                       ": an operation of this name is already in flight in this process "
                       "set; the whole group was refused"};
  }
  if (auto problem = wrong_group(requests, size_))
    return problem;
  std::vector<arrival> come;
  come.reserve(requests.size());
  auto group = number_of(requests);
  for (auto& request : requests) {
    come.push_back(
        admit(table_.at(request.name), request, group, static_cast<std::uint32_t>(requests.size())));
    come.back().operation->ready = std::move((*ready)[come.size() - 1]);
  }
  enter(come);
  std::vector<operation_state_ptr> all;
  for (auto& item : come)
    all.push_back(std::move(item.operation));
  return all;
}

// Settles an operation that is complete on the fast path, without the lock: its callback may submit again.
bool submission_queue::settle_unlocked(std::unique_lock<std::mutex>& guard, operation_state_ptr operation) {
  guard.unlock();
  return operation->try_settle(operation_state::runner::nobody);
}

// The operation is recorded as one that has ended and was never submitted. Only the first one is, so that a caller that
// goes on does not overwrite the events before the end.
error submission_queue::refuse_after_end(const submission& request) {
  if (recorder_ && !std::exchange(refusal_recorded_, true))
    recorder_->record(event_kind::settled, recorder_->intern_reason(request.name), set_,
                      static_cast<std::uint8_t>(ended_.kind));
  auto reason = ended_;
  reason.text = printable_name(request.name) + ": " + reason.text;
  return reason;
}

error submission_queue::check(const submission& request) {
  if (auto reason = epoch_.refuse())
    return reason;
  if (ended_)
    return refuse_after_end(request);
  if (auto problem = wrong_request(request, size_, ranks_))
    return problem;
  if (request.memory.device >= 0 && devices_.size() >= most_devices &&
      std::find(devices_.begin(), devices_.end(), request.memory.device) == devices_.end())
    return {error_kind::invalid_argument, printable_name(request.name) + ": a process can use at most " +
                                              std::to_string(most_devices) + " GPUs in a process set"};
  if (table_.size() >= capacity_)
    return {error_kind::overloaded,
            printable_name(request.name) + ": " + std::to_string(capacity_) +
                " names are in use already; wait for some operations before submitting more"};
  return {};
}

// Returns an operation for this request. Names recur from step to step: if there is no other reference to the last
// operation of this name, it is reused, with all fields that stay the same.
operation_state_ptr submission_queue::blank(known_tensor& entry, const submission& request) {
  if (entry.last && entry.last.alone()) {
    entry.last->renew();
    if (!(entry.last->signature == request.signature))
      entry.last->signature = request.signature;
    return entry.last;
  }
  auto operation = operation_state_ptr::make();
  operation->name = request.name;
  operation->signature = request.signature;
  operation->set = set_;
  operation->epoch = epoch_;
  operation->queue = weak_from_this();
  operation->recorder = recorder_;
  if (recorder_)
    operation->recorded_name = entry.last ? entry.last->recorded_name : recorder_->intern(request.name);
  entry.last = operation;
  return operation;
}

submission_queue::arrival submission_queue::admit(known_tensor& entry, const submission& request,
                                                  std::uint32_t group, std::uint32_t group_size) {
  auto operation = blank(entry, request);
  operation->input = request.input;
  operation->output = request.output;
  operation->absent = request.absent;
  // An absent allreduce may become an allgather.
  operation->owns_output =
      request.absent || (row_of(request.signature.operation).has_rows() && !request.output);
  operation->bytes =
      static_cast<std::size_t>(element_count(request.signature.shape)) * size_of(request.signature.dtype);
  operation->memory = request.memory;
  operation->device_number = number_of_device(request.memory);
  operation->splits = splits_of(request, size_);
  operation->group = group;
  operation->group_size = group_size;
  operation->no_fast_path = refuses_fast_path(entry, *operation, request.completion);
  submitted_.fetch_add(1, std::memory_order_relaxed);
  return {entry, std::move(operation)};
}

// Numbers the devices in the order in which they are used, so that ranks which use one device each agree, whichever it is.
std::uint8_t submission_queue::number_of_device(const tensor_memory& memory) {
  if (memory.device < 0)
    return 0;
  const auto found = std::find(devices_.begin(), devices_.end(), memory.device);
  const auto number = static_cast<std::uint8_t>(found - devices_.begin());
  if (found == devices_.end())
    devices_.push_back(memory.device);
  return number;
}

// Enters one operation, or all of a group: on the fast path together, or all through the leader.
void submission_queue::enter(std::span<const arrival> together) {
  if (ranges_)
    begin_range(together);
  const auto is_complete = [this](const arrival& come) {
    const auto& operation = *come.operation;
    return is_own_result(operation.signature, operation.input == operation.output, size_);
  };
  if (std::ranges::all_of(together, is_complete))
    return settle_at_once(together);
  const bool in_slots = std::all_of(together.begin(), together.end(), [](const arrival& arrival_state) {
    return arrival_state.entry.slot && arrival_state.entry.matches(*arrival_state.operation) &&
           !arrival_state.operation->no_fast_path;
  });
  if (in_slots && publish_together(together))
    return;
  for (const auto& [entry, operation] : together) {
    if (entry.matches(*operation) && !entry.slot)
      operation->id = entry.id;
    else if (entry.id != 0)
      give_up_next_round(entry, *operation);
    if (operation->signature.operation == operation::join) {
      joins_.fetch_add(1, std::memory_order_relaxed);
      leave_all_slots(*operation);
    }
    operation->record(event_kind::submitted, operation->recorded_operation(), operation->bytes,
                      operation->group);
    enqueue(operation);
  }
  table_.sweep_if_grown();
}

// The operations are not shared yet, so no callback runs with the lock held.
void submission_queue::settle_at_once(std::span<const arrival> together) {
  for (const auto& [entry, operation] : together) {
    operation->record(event_kind::submitted, operation->recorded_operation(), operation->bytes,
                      operation->group);
    if (operation->absent) {
      operation->claim_and_settle_without_result();
      continue;
    }
    operation->on_device.done = operation->ready;
    operation->claim_and_settle(phase::queued, {});
  }
  table_.sweep_if_grown();
}

// The operations of a group are of one kind.
void submission_queue::begin_range(std::span<const arrival> together) const {
  std::uint64_t bytes = 0;
  for (const auto& entry : together)
    bytes += entry.operation->bytes;
  const auto& first = *together.front().operation;
  const auto range = ranges_->call(first.signature.operation, first.group_size > 0, bytes);
  for (const auto& entry : together)
    entry.operation->profiled = range;
}

void submission_queue::settle_from_loop(operation_state& operation) {
  if (!operation.watch_requested.exchange(true, std::memory_order_relaxed))
    enqueue_watch(operation, false);
}

void submission_queue::report_slow(operation_state& operation) {
  enqueue_watch(operation, true);
}

void submission_queue::enqueue_watch(operation_state& operation, bool slow) {
  std::lock_guard guard(mutex_);
  if (is_on_fast_path(operation.now()) && !ended_)
    enqueue(watch_request{operation_state_ptr::share(&operation), slow});
}

bool submission_queue::report_broken(error reason) {
  std::lock_guard guard(ring_mutex_);
  if (!ring_)
    return false;
  queue_.push(round_broken{std::move(reason)});
  ring_(); // even if the queue was not empty: the last ring may have failed
  return true;
}

std::uint64_t submission_queue::failures(std::string_view name) {
  std::lock_guard guard(mutex_);
  read_news();
  const auto found = failures_.find(name);
  return found == failures_.end() ? 0 : found->second;
}

bool submission_queue::has_ended() {
  std::lock_guard guard(mutex_);
  return static_cast<bool>(ended_);
}

void submission_queue::close() {
  std::lock_guard guard(mutex_);
  if (!ended_)
    ended_ = {error_kind::shut_down, "Farandole has been shut down; call init() again to go on"};
  std::lock_guard ring_guard(ring_mutex_);
  ring_ = nullptr;
}

void submission_queue::enqueue(submission_message message) {
  if (!queue_.push(std::move(message)))
    return;
  std::lock_guard guard(ring_mutex_);
  if (ring_)
    ring_();
}

// ---- the loop ------------------------------------------------------------------------------------

std::vector<submission_message> submission_queue::take_queue() {
  return queue_.take_all();
}

void submission_queue::learn(std::uint32_t id, const operation_state& own,
                             std::shared_ptr<fast_path_slot> slot) {
  news_.push(
      {id, false, own.name, own.signature, own.group, own.group_size, own.device_number, std::move(slot)});
}

void submission_queue::forget(std::uint32_t id) {
  news_.push({id, true, {}, {}, 0, 0, 0, nullptr});
}

void submission_queue::count_failure(std::string name) {
  failed_names_.push(std::move(name));
}

// The caller holds the lock.
void submission_queue::read_news() {
  if (!news_.seems_empty())
    for (auto& change : news_.take_all())
      table_.apply(std::move(change));
  if (!failed_names_.seems_empty())
    for (auto& name : failed_names_.take_all())
      ++failures_[std::move(name)];
}

submission_queue::attempt submission_queue::end(const error& reason) {
  std::vector<operation_state_ptr> in_slots;
  {
    std::unique_lock guard(mutex_, std::try_to_lock);
    if (!guard.owns_lock())
      return attempt::busy;
    read_news();
    ended_ = reason;
    for (auto& [name, entry] : table_)
      if (entry.last && is_on_fast_path(entry.last->now()))
        in_slots.push_back(entry.last);
  }
  // Without the lock: a callback may submit again.
  auto result = attempt::done;
  for (auto& operation : in_slots)
    if (!operation->end_on_fast_path(reason))
      result = attempt::busy;
  return result;
}

submission_queue::attempt submission_queue::pending_names(std::vector<std::string>& names) {
  std::vector<operation_state_ptr> in_slots;
  {
    std::unique_lock guard(mutex_, std::try_to_lock);
    if (!guard.owns_lock())
      return attempt::busy;
    for (const auto& [name, entry] : table_)
      if (entry.last && is_on_fast_path(entry.last->now()))
        in_slots.push_back(entry.last);
  }
  // Without the lock: a callback may submit again.
  for (const auto& operation : in_slots)
    operation->try_settle(operation_state::runner::nobody);
  std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard.owns_lock())
    return attempt::busy;
  for (const auto& [name, entry] : table_)
    if (entry.last && name != set_change_name && entry.last->pending())
      names.push_back(name);
  return attempt::done;
}

// Operations that are queued for the set client are in the table as well, which holds every operation in flight.
submission_queue::attempt submission_queue::fail(const error& reason) {
  if (end(reason) == attempt::busy)
    return attempt::busy;
  std::vector<operation_state_ptr> left;
  {
    std::unique_lock guard(mutex_, std::try_to_lock);
    if (!guard.owns_lock())
      return attempt::busy;
    for (auto& [name, entry] : table_)
      if (entry.last && entry.last->now() == phase::queued)
        left.push_back(entry.last);
  }
  take_queue();
  for (auto& operation : left)
    operation->claim_and_settle(phase::queued, reason);
  return attempt::done;
}

} // namespace farandole
