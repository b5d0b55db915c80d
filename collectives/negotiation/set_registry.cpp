#include "collectives/negotiation/set_registry.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace farandole {

namespace {

error refuse(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

std::string in_words(const set_change& change) {
  if (change.kind == set_change_kind::remove)
    return "removes process set " + std::to_string(change.id);
  if (change.kind == set_change_kind::add)
    return "adds a process set of ranks " + ranks_to_text(change.sets.front());
  if (change.sets.empty())
    return "starts without process sets";
  std::string text = "starts with " + std::to_string(change.sets.size()) +
                     (change.sets.size() == 1 ? " process set: " : " process sets: ");
  constexpr std::size_t limit = 8;
  for (std::size_t i = 0; i < change.sets.size() && i < limit; ++i)
    text += (i ? ", " : "") + ranks_to_text(change.sets[i]);
  return change.sets.size() > limit ? text + ", …" : text;
}

// If both requests identify sets by their ids: describes the first set on which they differ.
std::string told_apart(const set_change& zero, std::size_t rank, const set_change& other) {
  auto at = [](const set_change& change, std::size_t i) {
    return i < change.ids.size() ? change.ids[i] : std::uint32_t{set_limit + 1};
  };
  std::size_t i = 0;
  while (i < zero.ids.size() && i < other.ids.size() && zero.ids[i] == other.ids[i] &&
         zero.sets[i] == other.sets[i])
    ++i;
  const auto id = std::min(at(zero, i), at(other, i));
  auto answer = [&](const set_change& change) {
    return at(change, i) == id ? "has ranks " + ranks_to_text(change.sets[i]) : std::string("has none");
  };
  return "ranks must agree on the members of process set " + std::to_string(id) + ", but on rank 0 it " +
         answer(zero) + " and on rank " + std::to_string(rank) + " it " + answer(other);
}

// Whether these are all ranks of the job.
bool is_global(const std::vector<std::int32_t>& ranks, std::size_t size) {
  return ranks.size() == size; // they are known to be unique and in range
}

} // namespace

std::string ranks_to_text(const std::vector<std::int32_t>& ranks) {
  constexpr std::size_t limit = 16;
  std::string text = "[";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks.size() > limit && i == limit / 2) {
      text += ", …";
      i = ranks.size() - limit / 2;
    }
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  }
  return text + "]";
}

set_registry::set_registry(std::int32_t size)
    : asked_(static_cast<std::size_t>(size)), missing_(asked_.size()) {
  assert(size > 0);
}

set_registry::answer set_registry::ask(std::int32_t rank, const set_change& change) {
  auto& entry = asked_.at(static_cast<std::size_t>(rank));
  answer result;
  if (entry) {
    result.breach = refuse("rank " + std::to_string(rank) +
                           " asks for a change of process sets before its last one was answered");
    return result;
  }
  if (change.kind == set_change_kind::add && change.sets.size() != 1) {
    result.breach = refuse("rank " + std::to_string(rank) + " adds " + std::to_string(change.sets.size()) +
                           " process sets at once");
    return result;
  }
  entry = change;
  if (--missing_ > 0)
    return result;
  result = decide();
  result.decided = true;
  asked_.assign(asked_.size(), std::nullopt);
  missing_ = asked_.size();
  return result;
}

set_registry::answer set_registry::decide() {
  const auto& change = *asked_.front();
  answer refused;
  refused.problem = difference();
  for (auto ranks = change.sets.begin(); !refused.problem && ranks != change.sets.end(); ++ranks)
    refused.problem = wrong(*ranks);
  if (refused.problem)
    return refused;
  switch (change.kind) {
  case set_change_kind::create:
    return create(change);
  case set_change_kind::add:
    return add(change);
  case set_change_kind::remove:
    return remove(change.id);
  }
  return refused;
}

error set_registry::difference() const {
  auto& zero = *asked_.front();
  for (std::size_t rank = 1; rank < asked_.size(); ++rank) {
    auto& other = *asked_[rank];
    if (other == zero)
      continue;
    if (!other.ids.empty() && !zero.ids.empty())
      return refuse(told_apart(zero, rank, other));
    return refuse("ranks must change process sets alike, but rank 0 " + in_words(zero) + " and rank " +
                  std::to_string(rank) + " " + in_words(other));
  }
  return {};
}

error set_registry::wrong(const std::vector<std::int32_t>& ranks) const {
  if (ranks.empty())
    return refuse("a process set needs at least one rank");
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || ranks[i] >= static_cast<std::int32_t>(asked_.size()))
      return refuse("a process set of ranks " + ranks_to_text(ranks) + " names rank " +
                    std::to_string(ranks[i]) + "; this job has ranks 0 to " +
                    std::to_string(asked_.size() - 1));
    if (i > 0 && ranks[i] <= ranks[i - 1])
      return refuse("a process set of ranks " + ranks_to_text(ranks) + " names rank " +
                    std::to_string(ranks[i]) + " twice");
  }
  return {};
}

const set_event* set_registry::equal_to(const std::vector<std::int32_t>& ranks) const {
  auto same =
      std::find_if(sets_.begin(), sets_.end(), [&](auto& entry) { return entry.second.ranks == ranks; });
  return same == sets_.end() ? nullptr : &same->second;
}

// Equal lists stand for the same set: the first one is used.
set_registry::answer set_registry::create(const set_change& change) {
  answer result;
  if (sets_.size() + change.sets.size() > set_limit) {
    result.problem = refuse("there can be at most " + std::to_string(set_limit) + " process sets");
    return result;
  }
  if (!change.ids.empty())
    return create_as_named(change);
  for (auto& ranks : change.sets)
    if (!is_global(ranks, asked_.size()) && !equal_to(ranks))
      result.events.push_back(begin(ranks));
  return result;
}

// Sets of an earlier generation: sets of equal ranks are distinct if their ids are.
set_registry::answer set_registry::create_as_named(const set_change& change) {
  answer result;
  for (std::size_t i = 0; i < change.sets.size(); ++i)
    if (const auto id = change.ids[i]; id != 0 && !sets_.count(id))
      result.events.push_back(begin(change.sets[i], id));
  for (; next_id_ <= (sets_.empty() ? 0 : sets_.rbegin()->first); ++next_id_)
    if (!sets_.count(next_id_))
      free_.push_back(next_id_);
  return result;
}

set_registry::answer set_registry::add(const set_change& change) {
  answer result;
  auto& ranks = change.sets.front();
  if (is_global(ranks, asked_.size()))
    result.problem =
        refuse("a process set of ranks " + ranks_to_text(ranks) + " exists already: it is the global one");
  else if (auto* same = equal_to(ranks))
    result.problem = refuse("a process set of ranks " + ranks_to_text(ranks) + " exists already: it has id " +
                            std::to_string(same->id));
  else if (sets_.size() >= set_limit)
    result.problem = refuse("there are " + std::to_string(set_limit) +
                            " process sets already; remove one before adding another");
  else
    result.events.push_back(begin(ranks));
  return result;
}

set_registry::answer set_registry::remove(std::uint32_t id) {
  answer result;
  auto found = sets_.find(id);
  if (found == sets_.end()) {
    result.problem = refuse(id == 0 ? "the global process set cannot be removed"
                                    : "there is no process set " + std::to_string(id));
    return result;
  }
  found->second.ends = true;
  result.events.push_back(std::move(found->second));
  sets_.erase(found);
  failures_.erase(id);
  free_.push_back(id);
  return result;
}

set_registry::recovery set_registry::failed(std::int32_t rank, const set_fault& set_fault,
                                            std::chrono::nanoseconds current_time) {
  recovery result;
  const auto reason = "on rank " + std::to_string(rank) + ": " + set_fault.reason;
  if (set_fault.number == 0 || set_fault.number >= next_number_) {
    result.breach = refuse("rank " + std::to_string(rank) + " reports a fault in a process set of number " +
                           std::to_string(set_fault.number) + ", which has not started");
    return result;
  }
  auto same = std::find_if(sets_.begin(), sets_.end(),
                           [&](auto& entry) { return entry.second.number == set_fault.number; });
  if (same == sets_.end()) {
    result.restart = {set_fault.number, std::nullopt, reason, false};
    return result;
  }
  auto& [id, set] = *same;
  auto& lately = failures_[id];
  while (!lately.empty() && current_time - lately.front() >= restart_period)
    lately.pop_front();
  lately.push_back(current_time);
  if (lately.size() > most_restarts) {
    result.restart = {set_fault.number, std::nullopt,
                      "process set " + std::to_string(id) + " failed " + std::to_string(lately.size()) +
                          " times within " + std::to_string(restart_period.count()) + " s, the last time " +
                          reason,
                      true};
    return result;
  }
  set.number = next_number_++;
  result.restart = {set_fault.number, set, reason, false};
  return result;
}

set_event set_registry::begin(const std::vector<std::int32_t>& ranks) {
  if (free_.empty())
    return begin(ranks, next_id_++);
  const auto id = free_.front();
  free_.pop_front();
  return begin(ranks, id);
}

set_event set_registry::begin(const std::vector<std::int32_t>& ranks, std::uint32_t id) {
  set_event event;
  event.number = next_number_++;
  event.id = id;
  event.ranks = ranks;
  sets_.emplace(id, event);
  return event;
}

} // namespace farandole
