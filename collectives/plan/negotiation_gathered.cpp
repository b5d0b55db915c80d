// What relays have gathered: many members ask for one thing at once, and are counted by the word. Where they
// cannot be, because one of them has asked already or something else is going on with the tensor, each is
// taken as if it had come alone.
#include <utility>

#include "collectives/plan/negotiation.hpp"

namespace farandole {

verdict negotiation::receive(std::int32_t relay, const gathered& what, std::chrono::nanoseconds now) {
  if (ended_)
    return {};
  step current{-1, now, what.full.size(), false, {}};
  for (const auto& one : what.ids)
    current.expected += one.ids.size();
  cache_.mark();
  const auto speak = [&](const rank_runs& ranks, auto take) {
    if (current.out.breach)
      return;
    if (const auto who = named(relay, ranks))
      return take(*who);
    current.out.breach = {error_kind::invalid_argument,
                          "rank " + std::to_string(relay) +
                              " broke the protocol: it speaks for ranks that are not below it"};
    current.out.broken_by = relay;
  };
  if (!what.buckets.empty())
    take_buckets(current, relay, what.buckets);
  for (const auto& one : what.ids)
    speak(one.ranks, [&](const member_mask& who) { take_ids(current, one.ids, who); });
  for (const auto& one : what.full)
    speak(one.ranks, [&](const member_mask& who) { take_full(current, one.what, who); });
  make_plans(current);
  return std::move(current.out);
}

std::optional<member_mask> negotiation::named(std::int32_t relay, const rank_runs& runs) const {
  const auto branch = branches_.find(relay);
  if (branch == branches_.end())
    return std::nullopt;
  if (runs.empty())
    return branch->second;
  auto some = mask_of(tally_.ranks(), runs);
  return some && some->within(branch->second) ? some : std::nullopt;
}

bool negotiation::speaks_for(std::int32_t relay, std::int32_t rank) const {
  const auto branch = branches_.find(relay);
  const auto member = tally_.member_of(rank);
  return branch != branches_.end() && member && branch->second.has(static_cast<std::size_t>(*member));
}

template <class Take>
void negotiation::one_by_one(step& current, const member_mask& who, Take take) {
  who.each([&](std::size_t member) {
    current.member = static_cast<std::int32_t>(member);
    if (current.out.breach)
      return;
    take();
    if (current.out.breach)
      current.out.broken_by = tally_.rank_of(current.member);
  });
}

// What comes singly should not have been in a bucket.
void negotiation::take_ids(step& current, const std::vector<std::uint32_t>& ids, const member_mask& who) {
  for (const auto id : ids)
    if (const auto* tensor = cache_.find(id))
      miss(current, *tensor);
  count_ids(current, ids, who);
}

void negotiation::count_ids(step& current, const std::vector<std::uint32_t>& ids, const member_mask& who) {
  for (const auto id : ids) {
    auto* tensor = cache_.find(id);
    if (!tensor || tensor->cell >= 0 || tally_.withdrawn(tensor->row) || tally_.asked_any(tensor->row, who))
      one_by_one(current, who, [&] { take_ids(current, {id}); });
    else if (tally_.add_known(tensor->row, who, current.now) == tally::count::complete)
      complete_known(current, *tensor);
  }
}

void negotiation::take_full(step& current, const request& what, const member_mask& who) {
  const auto known = tally_.find(what.name);
  const bool plain =
      what.signature.operation != operation::join &&
      !(known && (tally_.id(*known) != 0 || tally_.withdrawn(*known) || tally_.asked_any(*known, who)));
  if (!plain)
    return one_by_one(current, who, [&] { take_full(current, what); });
  const auto row = tally_.open(what.name);
  if (tally_.add(row, who, what, current.now) == tally::count::complete)
    complete_written(current, row);
}

} // namespace farandole
