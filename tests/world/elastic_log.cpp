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
  const auto found =
      std::find_if(members.begin(), members.end(), [&](const member& one) { return one.slot == slot; });
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

void elastic_log::welcomed(const welcome& what) {
  const auto key = global_set_of(what.generation, what.members);
  const bool known = generations_.contains(key);
  if (!known && !doubled_) {
    if (what.generation < last_.generation)
      return problem(of(what.generation) + "it goes back from " + std::to_string(last_.generation));
    if (what.generation == last_.generation)
      return problem(of(what.generation) + "rank " + std::to_string(what.rank) + " is told of other members");
    if (what.generation > last_.generation + 1 + untold_)
      problem(of(what.generation) + "it follows " + std::to_string(last_.generation));
  }
  auto& now = generations_[key];
  if (!known) {
    before_ = std::exchange(last_, key);
    untold_ = 0;
    now.first = what;
    now.late.resize(what.members.size());
    note([&] {
      std::string text = "generation " + std::to_string(what.generation) + " of slots";
      for (const auto& one : what.members)
        text += " " + std::to_string(one.slot);
      return text + (what.must_sync ? ", which must sync" : ", which need not sync");
    });
  }
  if (what.members != now.first.members || what.epoch != now.first.epoch)
    return problem(of(what.generation) + "rank " + std::to_string(what.rank) + " is told of other members");
  if (what.must_sync != now.first.must_sync)
    problem(of(what.generation) + "rank " + std::to_string(what.rank) + " is told otherwise whether to sync");
  now.late[static_cast<std::size_t>(what.rank)] = what.joined_late;
  if (!doubled_)
    check_order(now);
}

// Who was in comes first, in the order that was.
void elastic_log::check_order(const generation& now) {
  const auto generation = now.first.generation;
  const auto before = generations_.find(before_);
  std::int32_t last = -1;
  bool late_seen = false;
  for (const auto& one : now.first.members) {
    const auto late = now.late[static_cast<std::size_t>(one.rank)];
    if (!late)
      continue;
    const auto rank = before == generations_.end() ? -1 : rank_of(one.slot, before->second.first.members);
    const auto who = of(generation) + "slot " + std::to_string(one.slot);
    if (*late && rank >= 0 && !cut_off_.contains(one.slot))
      problem(who + " was in, was not cut off, and is told that it came late");
    if (!*late && before != generations_.end() && rank < 0)
      problem(who + " was not in, and is not told that it came late");
    if (!*late && late_seen)
      problem(who + " was in, and ranks behind one that came late");
    // A generation between the two that nobody was told of may have had another order.
    if (!*late && generation == before_.generation + 1 && rank < last)
      problem(who + " ranks behind one that it ranked before");
    if (*late && !now.first.must_sync)
      problem(who + " came late, and nobody need sync");
    late_seen = late_seen || *late;
    last = *late ? last : rank;
  }
}

// Who was let in and has never got the state cannot bring it.
bool elastic_log::somebody_stayed(const generation& which) const {
  return std::any_of(which.first.members.begin(), which.first.members.end(), [&](const member& one) {
    const auto late = which.late[static_cast<std::size_t>(one.rank)];
    return late && !*late && trained_.contains(one.slot);
  });
}

void elastic_log::ran(const set_key& set, std::int32_t place, std::int32_t members, const lane_job& job) {
  auto& log = sets_.try_emplace(set, members).first->second;
  const auto known = log.problems().size();
  log.ran(place, job, false);
  for (auto i = known; i < log.problems().size(); ++i)
    problem(of(set.generation) + "set " + std::to_string(set.number) + ": " + log.problems()[i]);
}

void elastic_log::brought(const set_key& set, const std::string& name, std::uint64_t count,
                          const std::vector<std::int64_t>& result) {
  const auto [first, is_new] = results_[set].try_emplace({name, count}, result);
  if (!is_new && first->second != result)
    problem(of(set.generation) + name + " brings " + std::to_string(result.at(0)) + " to one member and " +
            std::to_string(first->second.at(0)) + " to another");
}

void elastic_log::ended_on_board(const set_key& set, const std::string& name, std::uint64_t count,
                                 bool well) {
  on_board_ += well;
  const auto [first, is_new] = rounds_[set].try_emplace({name, count}, well);
  if (!is_new && first->second != well)
    problem(of(set.generation) + name + " has ended well on the board for one member, and not for another");
}

// The rendezvous would take it for lost.
void elastic_log::left(std::int32_t slot) {
  const bool planned = leaving_.erase(slot) != 0;
  if (told_so_.erase(slot) == 0 && planned && !disturbed_)
    problem("slot " + std::to_string(slot) + " has left by plan, and has not said so");
}

void elastic_log::trains(const set_key& global, std::int32_t slot, const training_state& from) {
  auto& now = generations_[global];
  note([&] {
    return "slot " + std::to_string(slot) + " trains in generation " + std::to_string(global.generation) +
           " from " + text_of(from);
  });
  if (!now.begins) {
    now.begins = from;
    if (from.round < safe_.round && !trained_.contains(now.first.members.front().slot) && !doubled_)
      problem(of(global.generation) + "training begins anew with " + text_of(from) +
              ", although all had committed " + text_of(safe_));
    else if (from.round < safe_.round && somebody_stayed(now) && !doubled_)
      problem(of(global.generation) + "training goes back to " + text_of(from) +
              ", although all had committed " + text_of(safe_));
    safe_ = from;
  } else if (*now.begins != from) {
    problem(of(global.generation) + "slot " + std::to_string(slot) + " begins from " + text_of(from) +
            ", another one from " + text_of(*now.begins));
  }
  trained_.insert(slot);
}

void elastic_log::committed(const set_key& global, const training_state& what) {
  if (global == last_ && what.round > safe_.round)
    safe_ = what;
}

std::vector<std::int32_t> elastic_log::slots() const {
  std::vector<std::int32_t> all;
  if (const auto now = generations_.find(last_); now != generations_.end())
    for (const auto& one : now->second.first.members)
      all.push_back(one.slot);
  return all;
}

std::uint64_t elastic_log::hash() const {
  auto hash = last_.generation;
  for (const auto& [set, log] : sets_)
    hash = dice::mixed(hash ^ dice::mixed(set.generation * 64 + set.number) ^ log.hash());
  return dice::mixed(hash + static_cast<std::uint64_t>(safe_.digest));
}

} // namespace farandole::testing
