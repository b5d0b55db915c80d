#include "tests/world/elastic_log.hpp"

#include <algorithm>
#include <utility>

namespace farandole::testing {

namespace {

constexpr std::size_t problems_kept = 10;

std::string text_of(const training_state& state) {
  return "round " + std::to_string(state.round) + ", digest " + std::to_string(state.digest);
}

std::int32_t rank_of(std::int32_t slot, const std::vector<member>& members) {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const member& member_info) { return member_info.slot == slot; });
  return found == members.end() ? -1 : found->rank;
}

std::string of(std::uint64_t generation) {
  return "generation " + std::to_string(generation) + ": ";
}

} // namespace

void elastic_log::problem(const std::string& text) {
  note([&] { return "PROBLEM: " + text; });
  if (problems_.size() < problems_kept)
    problems_.push_back(text);
}

void elastic_log::welcomed(const welcome& greeting) {
  const auto key = global_set_of(greeting.generation, greeting.members);
  const bool present = generations_.contains(key);
  if (!present && !doubled_) {
    if (greeting.generation < last_.generation)
      return problem(of(greeting.generation) + "it was announced after the later generation " +
                     std::to_string(last_.generation));
    if (greeting.generation == last_.generation)
      return problem(of(greeting.generation) + "rank " + std::to_string(greeting.rank) +
                     " received another list of members than an earlier rank");
    if (greeting.generation > last_.generation + 1 + unannounced_)
      problem(of(greeting.generation) + "it follows generation " + std::to_string(last_.generation) +
              ", so numbers were skipped");
  }
  auto& current = generations_[key];
  if (!present) {
    before_ = std::exchange(last_, key);
    unannounced_ = 0;
    current.first = greeting;
    current.late.resize(greeting.members.size());
    note([&] {
      std::string text = "generation " + std::to_string(greeting.generation) + " of slots";
      for (const auto& member : greeting.members)
        text += " " + std::to_string(member.slot);
      return text + (greeting.must_sync ? ", which must sync" : ", which need not sync");
    });
  }
  if (greeting.members != current.first.members || greeting.epoch != current.first.epoch)
    return problem(of(greeting.generation) + "rank " + std::to_string(greeting.rank) +
                   " received another list of members or another epoch than an earlier rank");
  if (greeting.must_sync != current.first.must_sync)
    problem(of(greeting.generation) + "rank " + std::to_string(greeting.rank) +
            " received another answer than an earlier rank on whether to sync");
  current.late[static_cast<std::size_t>(greeting.rank)] = greeting.joined_late;
  if (!doubled_)
    check_order(current);
}

// Members of the previous generation come first, in their previous order.
void elastic_log::check_order(const generation& current) {
  const auto generation = current.first.generation;
  const auto before = generations_.find(before_);
  std::int32_t last = -1;
  bool late_seen = false;
  for (const auto& member : current.first.members) {
    const auto late = current.late[static_cast<std::size_t>(member.rank)];
    if (!late)
      continue;
    const auto rank = before == generations_.end() ? -1 : rank_of(member.slot, before->second.first.members);
    const auto name = of(generation) + "slot " + std::to_string(member.slot);
    if (*late && rank >= 0 && !cut_off_.contains(member.slot))
      problem(name + " was in the previous generation and was not cut off, but is told that it joined late");
    if (!*late && before != generations_.end() && rank < 0)
      problem(name + " was not in the previous generation, but is not told that it joined late");
    if (!*late && late_seen)
      problem(name + " was in the previous generation, but ranks after a member that joined late");
    // A generation in between that was not announced to any member may have had another order.
    if (!*late && generation == before_.generation + 1 && rank < last)
      problem(name + " ranks after a member that it preceded in the previous generation");
    if (*late && !current.first.must_sync)
      problem(name + " joined late, but the members need not sync");
    late_seen = late_seen || *late;
    last = *late ? last : rank;
  }
}

// A member that joined but never received the state cannot provide it.
bool elastic_log::has_continuing_member(const generation& formed) const {
  return std::any_of(formed.first.members.begin(), formed.first.members.end(),
                     [&](const member& member_info) {
                       const auto late = formed.late[static_cast<std::size_t>(member_info.rank)];
                       return late && !*late && trained_.contains(member_info.slot);
                     });
}

void elastic_log::ran(const set_key& set, std::int32_t place, std::int32_t members, const lane_task& task) {
  auto& log = sets_.try_emplace(set, members).first->second;
  const auto size_type = log.problems().size();
  log.ran(place, task, false);
  for (auto i = size_type; i < log.problems().size(); ++i)
    problem(of(set.generation) + "set " + std::to_string(set.number) + ": " + log.problems()[i]);
}

void elastic_log::brought(const set_key& set, const std::string& name, std::uint64_t count,
                          const std::vector<std::int64_t>& result) {
  const auto [first, is_new] = results_[set].try_emplace({name, count}, result);
  if (!is_new && first->second != result)
    problem(of(set.generation) + name + " has the result " + std::to_string(result.at(0)) +
            " on one member and " + std::to_string(first->second.at(0)) + " on another");
}

void elastic_log::ended_on_fast_path(const set_key& set, const std::string& name, std::uint64_t count,
                                     bool well) {
  on_fast_path_ += well;
  const auto [first, is_new] = rounds_[set].try_emplace({name, count}, well);
  if (!is_new && first->second != well)
    problem(of(set.generation) + name +
            " has succeeded on the fast path for one member, but not for another");
}

// Without a farewell the rendezvous would treat the member as lost.
void elastic_log::left(std::int32_t slot) {
  const bool planned = leaving_.erase(slot) != 0;
  if (farewells_.erase(slot) == 0 && planned && !disturbed_)
    problem("slot " + std::to_string(slot) + " has left as planned, but has not announced it");
}

void elastic_log::trains(const set_key& global, std::int32_t slot, const training_state& from) {
  auto& current = generations_[global];
  note([&] {
    return "slot " + std::to_string(slot) + " trains in generation " + std::to_string(global.generation) +
           " from " + text_of(from);
  });
  if (!current.begins) {
    current.begins = from;
    if (from.round < safe_.round && !trained_.contains(current.first.members.front().slot) && !doubled_)
      problem(of(global.generation) + "training starts again from " + text_of(from) +
              ", although all had committed " + text_of(safe_));
    else if (from.round < safe_.round && has_continuing_member(current) && !doubled_)
      problem(of(global.generation) + "training returns to " + text_of(from) +
              ", although all had committed " + text_of(safe_));
    safe_ = from;
  } else if (*current.begins != from) {
    problem(of(global.generation) + "slot " + std::to_string(slot) + " starts from " + text_of(from) +
            ", but another slot from " + text_of(*current.begins));
  }
  trained_.insert(slot);
}

void elastic_log::committed(const set_key& global, const training_state& state) {
  if (global == last_ && state.round > safe_.round)
    safe_ = state;
}

std::vector<std::int32_t> elastic_log::slots() const {
  std::vector<std::int32_t> all;
  if (const auto current = generations_.find(last_); current != generations_.end())
    for (const auto& member : current->second.first.members)
      all.push_back(member.slot);
  return all;
}

std::uint64_t elastic_log::hash() const {
  auto hash = last_.generation;
  for (const auto& [set, log] : sets_)
    hash = dice::mixed(hash ^ dice::mixed(set.generation * 64 + set.number) ^ log.hash());
  return dice::mixed(hash + static_cast<std::uint64_t>(safe_.digest));
}

} // namespace farandole::testing
