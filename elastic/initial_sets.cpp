#include "elastic/initial_sets.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

namespace {

member_facts facts_of(const member& member_info, std::size_t size) {
  return {member_info.rank,       static_cast<std::int32_t>(size), member_info.local_rank,
          member_info.local_size, member_info.cross_rank,          member_info.cross_size,
          member_info.host_name};
}

expected<std::vector<std::int32_t>> chosen(const set_rule& rule, const std::vector<member>& members) {
  std::vector<std::int32_t> ranks;
  for (auto& member : members) {
    const auto in = rule(facts_of(member, members.size()));
    if (!in)
      return in.error();
    if (*in)
      ranks.push_back(member.rank);
  }
  return ranks;
}

// A set by rule that has no members now is not started; it may start in a later generation.
void ask_for(const kept_set& set, initial_sets& result) {
  if (set.members.empty() && set.origin.by_rule)
    return;
  result.change.sets.push_back(set.members);
  result.change.ids.push_back(set.id);
}

expected<initial_sets> again(const welcome& greeting, const set_wishes& wishes) {
  initial_sets result;
  result.change.kind = set_change_kind::create;
  result.sets = greeting.sets;
  for (auto& set : result.sets) {
    if (set.origin.by_rule) {
      if (set.origin.index >= wishes.rules.size())
        return error{error_kind::invalid_argument,
                     "the job has process set " + std::to_string(set.id) + " by the rule number " +
                         std::to_string(set.origin.index) + " of init(), but this process gives " +
                         std::to_string(wishes.rules.size()) +
                         ": every process of a job gives the same rules, in the same order"};
      auto ranks = chosen(wishes.rules[set.origin.index], greeting.members);
      if (!ranks)
        return ranks.error();
      set.members = std::move(*ranks);
    }
    ask_for(set, result);
  }
  return result;
}

// As in jobs whose sets do not outlive generations, equal lists of ranks stand for the same set.
expected<initial_sets> anew(const welcome& greeting, const set_wishes& wishes) {
  initial_sets result;
  result.change.kind = set_change_kind::create;
  std::uint32_t next = 1;
  for (std::size_t index = 0; index < wishes.ranks.size(); ++index) {
    auto& ranks = wishes.ranks[index];
    const auto same = std::find(wishes.ranks.begin(), wishes.ranks.end(), ranks) - wishes.ranks.begin();
    const auto global = ranks.size() == greeting.members.size();
    const auto is_new = !global && static_cast<std::size_t>(same) == index;
    const auto id = global ? 0 : is_new ? next++ : result.change.ids[static_cast<std::size_t>(same)];
    result.change.sets.push_back(ranks);
    result.change.ids.push_back(id);
    if (is_new)
      result.sets.push_back({{0, false, static_cast<std::uint32_t>(index)}, id, ranks});
  }
  for (std::size_t index = 0; index < wishes.rules.size(); ++index) {
    auto ranks = chosen(wishes.rules[index], greeting.members);
    if (!ranks)
      return ranks.error();
    result.sets.push_back({{0, true, static_cast<std::uint32_t>(index)}, next++, std::move(*ranks)});
    ask_for(result.sets.back(), result);
  }
  return result;
}

} // namespace

expected<initial_sets> create_initial_sets(const welcome& greeting, const set_wishes& wishes) {
  return greeting.sets_kept ? again(greeting, wishes) : anew(greeting, wishes);
}

} // namespace farandole
