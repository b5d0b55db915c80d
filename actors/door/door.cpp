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

door::~door() {
  take_queue();
  for (auto* item = news_.load(); item;)
    delete std::exchange(item, item->next);
}

// ---- framework threads ---------------------------------------------------------------------------

expected<pending_ptr> door::submit(const submission& what) {
  std::lock_guard guard(mutex_);
  read_news();
  if (table_.size() >= capacity_)
    sweep();
  if (auto problem = check(what))
    return problem;
  auto* known = look_up(what.name);
  if (in_flight(known))
    return error{error_kind::invalid_argument,
                 printable_name(what.name) +
                     ": an operation of this name is already in flight in this process set; wait for it "
                     "(synchronize) or use another name"};
  const auto come = admit(known ? *known : entry_of(what.name), what, 0, 0);
  enter({&come, 1});
  return come.operation;
}

expected<pending_ptr> door::submit(const set_change& what) {
  std::lock_guard guard(mutex_);
  if (ended_)
    return ended_;
  auto& known = entry_of(set_change_name);
  if (in_flight(&known))
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
    sweep();
  std::unordered_set<std::string_view> names(what.size());
  for (auto& one : what) {
    if (auto problem = check(one))
      return problem;
    if (in_flight(look_up(one.name)) || !names.insert(one.name).second)
      return error{error_kind::invalid_argument,
                   printable_name(one.name) +
                       ": an operation of this name is already in flight in this process "
                       "set; the whole group was refused"};
  }
  std::vector<arrival> come;
  come.reserve(what.size());
  auto group = number_of(what);
  for (auto& one : what)
    come.push_back(admit(entry_of(one.name), one, group, static_cast<std::uint32_t>(what.size())));
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

door::entry* door::look_up(std::string_view name) {
  auto position = table_.find(name);
  return position == table_.end() ? nullptr : &position->second;
}

// A name is free again as soon as its last operation is settled; one that sits complete on the board is
// settled here.
bool door::in_flight(const entry* known) {
  if (!known || !known->last)
    return false;
  auto& last = *known->last;
  return !last.settled() && !last.try_settle(pending::mover::nobody);
}

door::entry& door::entry_of(std::string_view name) {
  auto position = table_.find(name);
  if (position == table_.end())
    position = table_.emplace(std::string(name), entry{}).first;
  return position->second;
}

// An operation that asks for this. Names recur from step to step: when nobody else holds the last one of this
// name any more, it is used again, and with it everything that is the same.
pending_ptr door::blank(entry& known, const submission& what) {
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

door::arrival door::admit(entry& known, const submission& what, std::uint32_t group,
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
    return one.known.seat && one.known.knows(*one.operation) && !one.operation->seatless;
  });
  if (seated && sit_down(together))
    return;
  for (const auto& [known, operation] : together) {
    if (known.knows(*operation) && !known.seat)
      operation->id = known.id;
    else if (known.id != 0)
      stand_up(known, *operation);
    if (operation->signature.operation == operation::join) {
      joins_.fetch_add(1, std::memory_order_relaxed);
      leave_all_seats(*operation);
    }
    enqueue(operation);
  }
  if (table_.size() >= sweep_at_)
    sweep();
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
  auto* added = new queued{std::move(message), queue_.load(std::memory_order_relaxed)};
  // Once it is in the queue, the loop may take and delete it.
  bool first = false;
  do
    first = !added->next;
  while (!queue_.compare_exchange_weak(added->next, added, std::memory_order_release,
                                       std::memory_order_relaxed));
  if (first && ring_)
    ring_();
}

// Names that nobody uses any more: settled, and without an id.
void door::sweep() {
  std::erase_if(table_, [](const auto& item) {
    auto& known = item.second;
    return known.id == 0 && (!known.last || known.last->settled());
  });
  sweep_at_ = std::max<std::size_t>(1024, 2 * table_.size());
}

// ---- the loop ------------------------------------------------------------------------------------

std::vector<submission_message> door::take_queue() {
  std::vector<submission_message> all;
  for (auto* each = queue_.exchange(nullptr, std::memory_order_acquire); each;) {
    all.push_back(std::move(each->message));
    delete std::exchange(each, each->next);
  }
  std::reverse(all.begin(), all.end());
  return all;
}

void door::learn(std::uint32_t id, const pending& own, std::shared_ptr<board_seat> where) {
  post(new news{id, false, own.name, own.signature, own.group, own.group_size, std::move(where), nullptr});
}

void door::forget(std::uint32_t id) {
  post(new news{id, true, {}, {}, 0, 0, nullptr, nullptr});
}

void door::post(news* item) {
  item->next = news_.load(std::memory_order_relaxed);
  while (
      !news_.compare_exchange_weak(item->next, item, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

// Under the lock.
void door::read_news() {
  if (!news_.load(std::memory_order_relaxed))
    return;
  news* oldest = nullptr;
  for (auto* item = news_.exchange(nullptr, std::memory_order_acquire); item;) {
    auto* next = item->next;
    item->next = oldest;
    oldest = std::exchange(item, next);
  }
  while (oldest) {
    apply(*oldest);
    delete std::exchange(oldest, oldest->next);
  }
}

void door::apply(news& item) {
  if (item.forgotten)
    return forget_here(item.id);
  auto& known = entry_of(item.name);
  if (known.id != item.id) {
    names_.erase(known.id);
    known.id = item.id;
    known.next_round = 0;
    names_[known.id] = item.name;
  }
  known.signature = std::move(item.signature);
  known.group = item.group;
  known.group_size = item.group_size;
  known.seat = std::move(item.where);
}

void door::forget_here(std::uint32_t id) {
  auto named = names_.find(id);
  if (named == names_.end())
    return;
  if (auto position = table_.find(named->second); position != table_.end() && position->second.id == id) {
    position->second.id = 0;
    position->second.seat.reset();
  }
  names_.erase(named);
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
