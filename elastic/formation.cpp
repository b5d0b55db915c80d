#include "elastic/formation.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <utility>

#include "elastic/ranking.hpp"

namespace farandole {

namespace {

using candidates = std::vector<candidate>; // by slot

bool was_in_last(const candidate& member) {
  return member.last_rank >= 0;
}

bool holds_state(const candidate& member, const generation_record& last) {
  return last.is_newest(member.slot, member.hello_message->state_generation);
}

const candidate& candidate_in(std::int32_t slot, const candidates& present) {
  return *std::lower_bound(present.begin(), present.end(), slot,
                           [](const candidate& choice, std::int32_t wanted) { return choice.slot < wanted; });
}

/// All present members; empty if an awaited member has not sent its hello. `all_usable`: every process that may still
/// send one is awaited.
std::optional<candidates> all_present(const slot_table& table, bool all_usable) {
  candidates present;
  for (const auto& [slot, record] : table) {
    if (record.is_present())
      present.push_back({slot, record.last_rank, &record.announced});
    else if (record.awaited || (all_usable && record.is_usable()))
      return std::nullopt;
  }
  return present;
}

// Whether each member of the last generation either waits already or can never return.
bool nobody_returns(const slot_table& table, const generation_record& last) {
  return std::all_of(last.slots().begin(), last.slots().end(), [&](std::int32_t slot) {
    const auto& record = table.at(slot);
    return !record.is_usable() || record.link;
  });
}

enum class knowledge { present, may_return, lost };

// Training must not restart, or continue from an older state, once it has progressed further. So a process
// that was never a member waits for one that was; if there is none left, the launcher ends the job. A member
// that was to receive the others' state, and lost them before that, is refused with this reason, whether or
// not its training function had begun.
knowledge knowledge_of(const candidates& present, const slot_table& table, const generation_record& last) {
  const auto any = [&](const auto& is_so) { return std::any_of(present.begin(), present.end(), is_so); };
  if (last.number() == 0 || any([&](const candidate& member) { return holds_state(member, last); }))
    return knowledge::present;
  if (any(was_in_last))
    return !last.lost_somebody() || !last.had_state() ? knowledge::present : knowledge::lost;
  // A member of the last generation that was lost and has no state proves that no member trained in it.
  if (!last.had_state() && any([&](const candidate& member) { return last.has(member.slot); }))
    return knowledge::present;
  return nobody_returns(table, last) ? knowledge::lost : knowledge::may_return;
}

std::string lost_knowledge_refusal() {
  return "all members that knew how far the training is were lost before this process had joined them: the "
         "job cannot go on from there";
}

void take_others_as_new(candidates& present, const auto& goes_on) {
  if (std::none_of(present.begin(), present.end(), goes_on))
    return;
  for (auto& member : present)
    if (!goes_on(member))
      member.last_rank = -1;
}

// A member counts as new in two cases, because rank 0 gives its state to all:
// - Others have the newest training state and this member has not, regardless of its last rank.
// - Others continue with their process sets and this member founds its sets anew: its init() had not
//   completed when members were lost, so it never had any.
void take_as_new_who_begins_anew(candidates& present, const generation_record& last) {
  take_others_as_new(present, [&](const candidate& member) { return holds_state(member, last); });
  take_others_as_new(present, [](const candidate& member) {
    return was_in_last(member) && member.hello_message->keeps_sets;
  });
}

next_generation generation_of(candidates present, const generation_record& last, std::size_t limit) {
  take_as_new_who_begins_anew(present, last);
  next_generation next;
  next.members = ranked(present, limit);
  next.state_generation = 0;
  next.must_sync = !last.only_removals();
  std::vector<survivor> survivors;
  const auto progress = [&](const member& member_info) {
    return candidate_in(member_info.slot, present).hello_message->progress;
  };
  for (const auto& member : next.members) {
    const auto& chosen = candidate_in(member.slot, present);
    const bool goes_on = was_in_last(chosen);
    next.joined_late.push_back(last.number() > 0 && !goes_on);
    next.must_sync |= !goes_on || chosen.hello_message->progress != progress(next.members.front());
    if (goes_on)
      survivors.push_back({member.slot, member.rank, chosen.hello_message});
    if (holds_state(chosen, last))
      next.state_generation = std::max(next.state_generation, chosen.hello_message->state_generation);
  }
  next.sets = surviving(survivors);
  return next;
}

} // namespace

formation::formation(membership_rules rules) : rules_(rules) {
  assert(rules.size >= 1 && rules.size <= member_limit);
  assert(!rules.elastic || (rules.minimum >= 1 && rules.minimum <= rules.size && rules.size <= rules.limit));
  if (!rules_.elastic)
    rules_.minimum = rules_.limit = rules_.size;
}

formation_decision formation::decide(const slot_table& table, const generation_record& last) const {
  if (last.running())
    return {};
  if (auto reason = shortage_refusal(table); !reason.empty())
    return {std::nullopt, std::move(reason)};
  auto present = all_present(table, rules_.serves_calls);
  if (!present || !may_start(present->size(), table, last))
    return {};
  switch (rules_.serves_calls ? knowledge::present : knowledge_of(*present, table, last)) {
  case knowledge::may_return:
    return {};
  case knowledge::lost:
    return {std::nullopt, lost_knowledge_refusal()};
  case knowledge::present:
    break;
  }
  return {generation_of(std::move(*present), last, static_cast<std::size_t>(rules_.limit)), {}};
}

std::string formation::shortage_refusal(const slot_table& table) const {
  if (!no_more_starts_)
    return {};
  const auto left =
      std::count_if(table.begin(), table.end(), [](const auto& entry) { return entry.second.is_usable(); });
  if (left >= rules_.minimum)
    return {};
  return "there will be no other generation: other members have finished training, so no worker "
         "is started any more, and of the " +
         std::to_string(rules_.minimum) + " members that a generation needs (--min-np) " +
         std::to_string(left) + (left == 1 ? " is left" : " are left");
}

// The first generation needs as many members as the user requested. If a process has ended before that, the
// minimum is enough, as soon as no other process can arrive.
bool formation::may_start(std::size_t present, const slot_table& table, const generation_record& last) const {
  const auto wanted = [&](std::int32_t count) { return present >= static_cast<std::size_t>(count); };
  if (last.number() > 0 || wanted(rules_.size))
    return wanted(rules_.minimum);
  const auto ended = [](const auto& entry) { return entry.second.ended; };
  const auto may_come = [](const auto& entry) { return entry.second.is_usable() && !entry.second.link; };
  return wanted(rules_.minimum) && std::any_of(table.begin(), table.end(), ended) &&
         std::none_of(table.begin(), table.end(), may_come);
}

// Once enough members have arrived, the generation waits only for members of the previous one.
awaited formation::missing(const slot_table& table, const generation_record& last) const {
  awaited found;
  if (!last.running())
    found.arrived = static_cast<std::uint32_t>(table.present().size());
  const auto needed = static_cast<std::uint32_t>(last.number() == 0 ? rules_.size : rules_.minimum);
  const bool too_few = found.arrived < needed;
  std::uint32_t count = 0;
  for (const auto& [slot, record] : table) {
    const bool may_come = rules_.elastic && (too_few || rules_.serves_calls) && record.is_usable();
    if (record.link || !(record.awaited || may_come))
      continue;
    if (++count <= awaited_limit)
      found.missing.push_back({slot, record.host.empty() ? record.announced.host_name : record.host});
  }
  found.size = std::max(needed, found.arrived + count);
  return found;
}

} // namespace farandole
