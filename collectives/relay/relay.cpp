#include "collectives/relay/relay.hpp"

#include <algorithm>

#include "messages/values/breach.hpp"
#include "messages/wire/schedule_order.hpp"

namespace farandole {

namespace {

// Above this number of rows, those of which everything has gone up are discarded.
constexpr std::size_t most_rows = 8192;

// Whether the message holds parts other than requests: they concern earlier requests, or more than one tensor.
bool has_rest(const requests& batch) {
  return batch.join || batch.leaves || !batch.withdraw.empty() || batch.change || batch.finished > 0 ||
         !batch.faults.empty();
}

// Whether one request can represent both.
bool alike(const request& asked_request, const request& other) {
  return asked_request.signature == other.signature && asked_request.group == other.group &&
         asked_request.group_size == other.group_size && asked_request.device == other.device &&
         asked_request.absent == other.absent;
}

} // namespace

relay::relay(relay_rules rules)
    : rules_(std::move(rules)), everyone_(all_members(rules_.ranks.size())), joined_(rules_.ranks.size()),
      branches_(rules_.ranks, rules_.branches), outbox_(rules_.ranks, rules_.hold) {}

// ---- from below ---------------------------------------------------------------------------------

error relay::take(std::int32_t rank, const requests& batch, std::chrono::nanoseconds current_time) {
  const auto member = position(rank);
  if (!member)
    return breach::of(rank, breach::not_a_member);
  if (auto problem = unknown_bucket(rank, batch.buckets))
    return problem;
  take(*member, batch, current_time);
  return {};
}

void relay::take(std::size_t member, const requests& batch, std::chrono::nanoseconds current_time) {
  // The requests in this message must not overtake its `left`, so all of it is passed on together.
  if (!batch.left.empty()) {
    outbox_.flush_all();
    return pass_on(member, batch);
  }
  member_mask members(rules_.ranks.size());
  members.add(member);
  ask_for_all(batch.buckets, members, current_time);
  for (auto id : batch.ids)
    ask(id, members, current_time);
  for (const auto& request : batch.full)
    ask(request, members, current_time);
  if (!has_rest(batch))
    return;
  if (batch.must_not_overtake())
    outbox_.flush_all();
  if (!batch.withdraw.empty())
    flush_of(member);
  auto rest = batch;
  rest.buckets.clear();
  rest.ids.clear();
  rest.full.clear();
  pass_on(member, rest);
}

error relay::take(std::int32_t sender, const gathered& batch, std::chrono::nanoseconds current_time) {
  const auto impossible = [&] { return breach::of(sender, breach::strange_ranks); };
  const auto* branch = branches_.find(sender);
  if (!branch)
    return impossible();
  if (auto problem = unknown_bucket(sender, batch.buckets))
    return problem;
  for (const auto& ids : batch.ids)
    if (!branches_.named(sender, ids.ranks))
      return impossible();
  for (const auto& request : batch.full)
    if (!branches_.named(sender, request.ranks))
      return impossible();
  for (const auto& entry : batch.apart)
    if (auto member = position(entry.rank); !member || !branch->has(*member))
      return impossible();
    else if (auto problem = unknown_bucket(sender, entry.batch.buckets))
      return problem;
  ask_for_all(batch.buckets, *branch, current_time);
  for (const auto& ids : batch.ids)
    for (auto id : ids.ids)
      ask(id, *branches_.named(sender, ids.ranks), current_time);
  for (const auto& request : batch.full)
    ask(request.asked_request, *branches_.named(sender, request.ranks), current_time);
  for (const auto& entry : batch.apart)
    take(*position(entry.rank), entry.batch, current_time);
  return {};
}

std::optional<std::size_t> relay::position(std::int32_t rank) const {
  const auto found = std::lower_bound(rules_.ranks.begin(), rules_.ranks.end(), rank);
  if (found == rules_.ranks.end() || *found != rank)
    return std::nullopt;
  return static_cast<std::size_t>(found - rules_.ranks.begin());
}

error relay::unknown_bucket(std::int32_t sender, const std::vector<std::uint32_t>& buckets) const {
  for (const auto bucket : buckets)
    if (!outbox_.find(bucket))
      return breach::of(sender, breach::unplanned_bucket);
  return {};
}

void relay::ask_for_all(const std::vector<std::uint32_t>& buckets, const member_mask& members,
                        std::chrono::nanoseconds current_time) {
  for (const auto bucket : buckets)
    // ask() may end this bucket and make the accumulator forget another bucket of the same message. No correct
    // member sends such a message; the forgotten bucket is ignored.
    if (const auto* entry = outbox_.find(bucket))
      for (const auto ids = *entry; auto id : ids)
        ask(id, members, current_time);
}

// A member that repeats a request begins a new round: its previous request has been answered.
void relay::ask(std::uint32_t id, const member_mask& members, std::chrono::nanoseconds current_time) {
  auto [found, fresh] = rows_.try_emplace(id);
  auto& row = found->second;
  if (fresh)
    row.held = row.sent = member_mask(rules_.ranks.size());
  if (fresh && outbox_.holds(id))
    outbox_.flush_bucket(id);
  if (row.held.overlaps(members)) {
    outbox_.flush_bucket(id);
    outbox_.put(id, row.held);
    row.held.clear();
    row.sent.clear();
  } else if (row.sent.overlaps(members)) {
    row.sent.clear();
  }
  if (row.held.empty()) {
    row.since = current_time;
    (outbox_.takes(id) ? held_in_buckets_ : held_ids_).push_back({current_time, id});
  }
  row.held.add(members);
  if (!complete(row))
    return;
  const auto all = std::move(row.held);
  rows_.erase(found);
  // A bucket's number stands for requests of all members below, so it cannot be used while a member has joined.
  if (joined_.empty())
    outbox_.put_complete(id, all, current_time);
  else
    outbox_.put(id, all);
}

void relay::ask(const request& request, const member_mask& members, std::chrono::nanoseconds current_time) {
  auto [found, fresh] = full_.try_emplace(request.name);
  auto& row = found->second;
  if (!fresh && row.held.overlaps(members)) {
    emit(row);
    row = full_row{};
    fresh = true;
  }
  if (fresh) {
    row.held = member_mask(rules_.ranks.size());
    row.since = current_time;
    held_full_.push_back({current_time, request.name});
  }
  auto same = std::find_if(row.forms.begin(), row.forms.end(),
                           [&](const form& form) { return alike(form.asked_request, request); });
  if (same == row.forms.end())
    same = row.forms.insert(row.forms.end(), {request, member_mask(rules_.ranks.size())});
  same->asked_request.no_fast_path |= request.no_fast_path;
  same->held.add(members);
  row.held.add(members);
  if (!complete(row))
    return;
  emit(row);
  full_.erase(found);
}

void relay::pass_on(std::size_t member, const requests& batch) {
  outbox_.put_apart(rules_.ranks[member], batch);
  for (auto id : batch.ids)
    if (auto row = rows_.find(id); row != rows_.end())
      row->second.sent.add(member);
  if (batch.join)
    join(member);
}

// Sends up the member's requests: the leader must receive a request before its withdrawal.
void relay::flush_of(std::size_t member) {
  for (auto& [id, row] : rows_)
    if (row.held.has(member)) {
      outbox_.flush_bucket(id);
      outbox_.put(id, row.held);
      row.sent.add(row.held);
      row.held.clear();
    }
  for (auto row = full_.begin(); row != full_.end();) {
    const bool holds = row->second.held.has(member);
    if (holds)
      emit(row->second);
    row = holds ? full_.erase(row) : std::next(row);
  }
}

void relay::join(std::size_t member) {
  joined_.add(member);
  for (auto row = rows_.begin(); row != rows_.end();) {
    const bool whole = complete(row->second);
    if (whole && !row->second.held.empty())
      outbox_.put(row->first, row->second.held);
    row = whole ? rows_.erase(row) : std::next(row);
  }
  for (auto row = full_.begin(); row != full_.end();) {
    const bool whole = complete(row->second);
    if (whole)
      emit(row->second);
    row = whole ? full_.erase(row) : std::next(row);
  }
}

bool relay::complete(const id_row& row) const {
  const auto all = everyone_.words();
  for (std::size_t i = 0; i < all.size(); ++i)
    if ((row.held.words()[i] | row.sent.words()[i] | joined_.words()[i]) != all[i])
      return false;
  return true;
}

bool relay::complete(const full_row& row) const {
  const auto all = everyone_.words();
  for (std::size_t i = 0; i < all.size(); ++i)
    if ((row.held.words()[i] | joined_.words()[i]) != all[i])
      return false;
  return true;
}

// ---- from above ---------------------------------------------------------------------------------

void relay::apply_schedule(const schedule& plan) {
  for_each_part(plan, for_parts{
                          [this](part_tag<schedule_part::assignments>, const auto& assignments) {
                            for (const auto& assignment : assignments)
                              outbox_.answered(assignment.name);
                          },
                          [this](part_tag<schedule_part::dissolved>, const auto& buckets) {
                            for (auto bucket : buckets)
                              outbox_.dissolve(bucket);
                          },
                          [this](part_tag<schedule_part::forget>, const auto& ids) {
                            for (auto id : ids)
                              forget(id);
                          },
                          [this](part_tag<schedule_part::retract>, const auto& rounds) {
                            for (const auto& round : rounds)
                              forget(round.id);
                          },
                          [this](part_tag<schedule_part::failures>, const auto& failures) {
                            for (const auto& failed : failures)
                              outbox_.answered(failed.name);
                          },
                          [this](part_tag<schedule_part::absent>, const auto& names) {
                            for (const auto& name : names)
                              outbox_.answered(name);
                          },
                          [](part_tag<schedule_part::ask>, const auto&) {}, // concerns one member only
                          [this](part_tag<schedule_part::results>, const auto& results) {
                            for (const auto& result : results)
                              outbox_.answered(result.id);
                          },
                          [this](part_tag<schedule_part::bundles>, const auto& bundles) {
                            for (const auto& moved : bundles)
                              for (const auto& entry : moved.entries)
                                outbox_.answered(entry.id);
                          },
                          [this](part_tag<schedule_part::buckets>, const auto& buckets) {
                            for (const auto& planned : buckets)
                              outbox_.add(planned);
                          },
                          [this](part_tag<schedule_part::joined>, std::int32_t last_rank) {
                            if (last_rank >= 0)
                              joined_.clear();
                          },
                          // Changes of process sets, and the end, do not affect the state of a relay.
                          [](part_tag<schedule_part::restarts>, const auto&) {},
                          [](part_tag<schedule_part::sets>, const auto&) {},
                          [](part_tag<schedule_part::changed>, bool) {},
                          [](part_tag<schedule_part::departed>, const auto&) {},
                          [](part_tag<schedule_part::end>, bool) {},
                      });
}

// Requests that are held for the forgotten id still go up: the leader must know which members wait under it, to
// ask them for their full requests.
void relay::forget(std::uint32_t id) {
  outbox_.answered(id);
  outbox_.flush_bucket(id);
  const auto row = rows_.find(id);
  if (row == rows_.end())
    return;
  if (!row->second.held.empty())
    outbox_.put(id, row->second.held);
  rows_.erase(row);
}

// ---- up -----------------------------------------------------------------------------------------

void relay::emit(full_row& row) {
  for (auto& form : row.forms)
    outbox_.put(std::move(form.asked_request), form.held);
}

gathered relay::due(std::chrono::nanoseconds current_time) {
  emit_overdue(current_time);
  return outbox_.due(current_time);
}

void relay::emit_overdue(std::chrono::nanoseconds current_time) {
  outbox_.flush_overdue(current_time);
  drop_stale();
  emit_overdue(held_ids_, current_time - rules_.id_patience);
  emit_overdue(held_in_buckets_, current_time - rules_.bucket_patience);
  while (!held_full_.empty() && held_full_.front().since + rules_.full_patience <= current_time) {
    const auto row = full_.find(held_full_.front().key);
    emit(row->second);
    full_.erase(row);
    drop_stale();
  }
  if (rows_.size() > most_rows)
    std::erase_if(rows_, [](const auto& row) { return row.second.held.empty(); });
}

// Sends up the ids that were first requested at `since` or before.
void relay::emit_overdue(std::deque<held_since<std::uint32_t>>& held, std::chrono::nanoseconds since) {
  while (!held.empty() && held.front().since <= since) {
    const auto id = held.front().key;
    outbox_.flush_bucket(id);
    auto& row = rows_.at(id);
    outbox_.put(id, row.held);
    row.sent.add(row.held);
    row.held.clear();
    drop_stale();
  }
}

// Removes outdated entries, so that each queue begins with one that is still held.
void relay::drop_stale() {
  const auto held = [](const auto& rows, const auto& entry) {
    const auto row = rows.find(entry.key);
    return row != rows.end() && row->second.since == entry.since && !row->second.held.empty();
  };
  for (auto* ids : {&held_ids_, &held_in_buckets_})
    while (!ids->empty() && !held(rows_, ids->front()))
      ids->pop_front();
  while (!held_full_.empty() && !held(full_, held_full_.front()))
    held_full_.pop_front();
}

std::optional<std::chrono::nanoseconds> relay::wake_at() {
  drop_stale();
  std::optional<std::chrono::nanoseconds> wake;
  const auto at = [&](std::chrono::nanoseconds when) { wake = wake ? std::min(*wake, when) : when; };
  if (const auto due = outbox_.wake_at())
    at(*due);
  if (!held_ids_.empty())
    at(held_ids_.front().since + rules_.id_patience);
  if (!held_in_buckets_.empty())
    at(held_in_buckets_.front().since + rules_.bucket_patience);
  if (!held_full_.empty())
    at(held_full_.front().since + rules_.full_patience);
  return wake;
}

} // namespace farandole
