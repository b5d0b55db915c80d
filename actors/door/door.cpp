#include "actors/door/door.hpp"

#include <algorithm>
#include <cassert>
#include <unordered_set>

#include "actors/door/request_check.hpp"
#include "collectives/operation.hpp"
#include "collectives/plan/group.hpp"
#include "messages/printable.hpp"

namespace farandole {

namespace {

// The same on every rank and in every step, so that grouped tensors, too, can go by their ids.
std::uint32_t number_of(std::span<const submission> members) {
  std::vector<std::string_view> names;
  for (auto& one : members)
    names.push_back(one.name);
  return group_number(names);
}

} // namespace

door::door(std::uint32_t set, std::int32_t size, std::size_t capacity, std::function<void()> ring,
           std::vector<std::int32_t> ranks, set_epoch epoch, std::size_t board_limit_bytes)
    : set_(set), size_(size), capacity_(capacity), ranks_(std::move(ranks)), epoch_(std::move(epoch)),
      board_limit_bytes_(board_limit_bytes), ring_(std::move(ring)) {}

// ---- framework threads ---------------------------------------------------------------------------

expected<pending_ptr> door::submit(const submission& what) {
  std::lock_guard guard(mutex_);
  read_news();
  if (table_.size() >= capacity_)
    table_.sweep();
  if (auto problem = check(what))
    return problem;
  auto* known = table_.find(what.name);
  if (known && known->in_flight())
    return error{error_kind::invalid_argument,
                 printable_name(what.name) +
                     ": an operation of this name is already in flight in this process set; wait for it "
                     "(synchronize) or use another name"};
  const auto come = admit(known ? *known : table_.at(what.name), what, 0, 0);
  enter({&come, 1});
  return come.operation;
}

expected<pending_ptr> door::submit(const set_change& what) {
  std::lock_guard guard(mutex_);
  if (ended_)
    return ended_;
  auto& known = table_.at(set_change_name);
  if (known.in_flight())
    return error{error_kind::invalid_argument,
                 "this rank is adding or removing a process set already; wait for that first"};
  auto operation = pending_ptr::make();
  operation->name = set_change_name;
  operation->home = weak_from_this();
  known.last = operation;
  enqueue(set_change_request{operation, what});
  return operation;
}

expected<std::vector<pending_ptr>> door::submit_group(std::span<const submission> what) {
  std::lock_guard guard(mutex_);
  read_news();
  if (table_.size() >= capacity_)
    table_.sweep();
  std::unordered_set<std::string_view> names(what.size());
  for (auto& one : what) {
    if (auto problem = check(one))
      return problem;
    const auto* known = table_.find(one.name);
    if ((known && known->in_flight()) || !names.insert(one.name).second)
      return error{error_kind::invalid_argument,
                   printable_name(one.name) +
                       ": an operation of this name is already in flight in this process "
                       "set; the whole group was refused"};
  }
  std::vector<arrival> come;
  come.reserve(what.size());
  auto group = number_of(what);
  for (auto& one : what)
    come.push_back(admit(table_.at(one.name), one, group, static_cast<std::uint32_t>(what.size())));
  enter(come);
  std::vector<pending_ptr> all;
  for (auto& each : come)
    all.push_back(std::move(each.operation));
  return all;
}

error door::check(const submission& what) const {
  if (auto why = epoch_.refuse())
    return why;
  if (ended_)
    return ended_;
  if (auto problem = wrong_request(what, size_, ranks_))
    return problem;
  if (table_.size() >= capacity_)
    return {error_kind::overloaded,
            printable_name(what.name) + ": " + std::to_string(capacity_) +
                " names are in use already; wait for some operations before submitting more"};
  return {};
}

// An operation that asks for this. Names recur from step to step: when nobody else holds the last one of this
// name any more, it is used again, and with it everything that is the same.
pending_ptr door::blank(known_tensor& known, const submission& what) {
  if (known.last && known.last.alone()) {
    known.last->renew();
    if (!(known.last->signature == what.signature))
      known.last->signature = what.signature;
    return known.last;
  }
  auto operation = pending_ptr::make();
  operation->name = what.name;
  operation->signature = what.signature;
  operation->set = set_;
  operation->epoch = epoch_;
  operation->home = weak_from_this();
  known.last = operation;
  return operation;
}

door::arrival door::admit(known_tensor& known, const submission& what, std::uint32_t group,
                          std::uint32_t group_size) {
  auto operation = blank(known, what);
  operation->input = what.input;
  operation->output = what.output;
  operation->lends = row_of(what.signature.operation).has_rows() && !what.output;
  operation->bytes =
      static_cast<std::size_t>(element_count(what.signature.shape)) * size_of(what.signature.dtype);
  operation->splits = splits_of(what, size_);
  operation->group = group;
  operation->group_size = group_size;
  operation->seatless = wants_no_seat(known, *operation, what.told);
  submitted_.fetch_add(1, std::memory_order_relaxed);
  return {known, std::move(operation)};
}

// One operation, or all of a group: on the board together, or all by the leader.
void door::enter(std::span<const arrival> together) {
  const bool seated = std::all_of(together.begin(), together.end(), [](const arrival& one) {
    return one.known.seat && one.known.matches(*one.operation) && !one.operation->seatless;
  });
  if (seated && sit_down(together))
    return;
  for (const auto& [known, operation] : together) {
    if (known.matches(*operation) && !known.seat)
      operation->id = known.id;
    else if (known.id != 0)
      stand_up(known, *operation);
    if (operation->signature.operation == operation::join) {
      joins_.fetch_add(1, std::memory_order_relaxed);
      leave_all_seats(*operation);
    }
    enqueue(operation);
  }
  table_.sweep_if_grown();
}

void door::withdraw(pending& operation) {
  if (operation.name == set_change_name)
    return; // the others may count on it already
  std::lock_guard guard(mutex_);
  // On the board, this member would have to take back a round that others may have read already: it stays.
  if (operation.now() == phase::queued && !ended_)
    enqueue(withdrawal_request{operation.name});
}

void door::look_after(pending& operation) {
  if (!operation.looked_after.exchange(true, std::memory_order_relaxed))
    tell_of(operation, false);
}

void door::takes_long(pending& operation) {
  tell_of(operation, true);
}

void door::tell_of(pending& operation, bool slow) {
  std::lock_guard guard(mutex_);
  if (is_on_board(operation.now()) && !ended_)
    enqueue(watch_request{pending_ptr::share(&operation), slow});
}

void door::close() {
  std::lock_guard guard(mutex_);
  if (!ended_)
    ended_ = {error_kind::shut_down, "Farandole has been shut down; call init() again to go on"};
  ring_ = nullptr;
}

void door::enqueue(submission_message message) {
  if (queue_.push(std::move(message)) && ring_)
    ring_();
}

// ---- the loop ------------------------------------------------------------------------------------

std::vector<submission_message> door::take_queue() {
  return queue_.take_all();
}

void door::learn(std::uint32_t id, const pending& own, std::shared_ptr<board_seat> where) {
  news_.push({id, false, own.name, own.signature, own.group, own.group_size, std::move(where)});
}

void door::forget(std::uint32_t id) {
  news_.push({id, true, {}, {}, 0, 0, nullptr});
}

// Under the lock.
void door::read_news() {
  if (news_.seems_empty())
    return;
  for (auto& change : news_.take_all())
    table_.apply(std::move(change));
}

door::attempt door::end(const error& why) {
  std::vector<pending_ptr> seated;
  {
    std::unique_lock guard(mutex_, std::try_to_lock);
    if (!guard.owns_lock())
      return attempt::busy;
    read_news();
    ended_ = why;
    for (auto& [name, known] : table_)
      if (known.last && is_on_board(known.last->now()))
        seated.push_back(known.last);
  }
  // Without the lock: who is told may come in again.
  auto result = attempt::done;
  for (auto& one : seated)
    if (!one->end_on_board(why))
      result = attempt::busy;
  return result;
}

door::attempt door::pending_names(std::vector<std::string>& names) {
  std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard.owns_lock())
    return attempt::busy;
  for (const auto& [name, known] : table_) {
    if (!known.last || name == set_change_name)
      continue;
    const auto now = known.last->now();
    if (now == phase::queued || (is_on_board(now) && !known.last->try_settle(pending::mover::nobody)))
      names.push_back(name);
  }
  return attempt::done;
}

// What waits for the worker is in the table as well, where every operation in flight is.
door::attempt door::fail(const error& why) {
  if (end(why) == attempt::busy)
    return attempt::busy;
  std::vector<pending_ptr> left;
  {
    std::unique_lock guard(mutex_, std::try_to_lock);
    if (!guard.owns_lock())
      return attempt::busy;
    for (auto& [name, known] : table_)
      if (known.last && known.last->now() == phase::queued)
        left.push_back(known.last);
  }
  take_queue();
  for (auto& one : left)
    one->claim_and_settle(phase::queued, why);
  return attempt::done;
}

} // namespace farandole
