#include "tests/world/set_play.hpp"

#include <algorithm>
#include <numeric>

#include "tests/world/dice.hpp"

namespace farandole::testing {

namespace {

// Random streams, one for each kind of decision.
enum stream : std::uint64_t { rules = 201, course, left_out };

constexpr std::size_t most_live = 5; // with the global set

} // namespace

set_options set_options::drawn(std::uint64_t seed, std::int32_t members) {
  dice draw(seed, rules, static_cast<std::uint64_t>(members));
  auto one_of = [&](auto... values) {
    const decltype((values + ...)) all[] = {values...};
    return all[draw.below(sizeof...(values))];
  };
  set_options options;
  options.seed = seed;
  options.members = members;
  options.host_ranks = one_of(0, 0, 1, 2, 3);
  options.fan_in = one_of(1u, 2u, 8u);
  options.cache_capacity = one_of(0, 5, 1024, 1024);
  options.fusion_threshold = one_of(0, 4096, 1 << 27);
  options.cycle_time_ms = one_of(0, 0, 1);
  options.latency_us = one_of(0u, 50u, 500u);
  options.jitter_us = one_of(1u, 100u, 3000u);
  options.delayed = one_of(0u, 50u, 5u);
  return options;
}

set_play::set_play(const set_options& options) : options_(options) {
  dice draw(options.seed, course, static_cast<std::uint64_t>(options.members));
  std::vector<std::int32_t> all(static_cast<std::size_t>(options.members));
  std::iota(all.begin(), all.end(), 0);
  ranks_.push_back(all);
  std::vector<std::size_t> live{0};
  // A new set must differ from all existing sets, since an equal set would be refused.
  const auto begin = [&](std::uint64_t one_in) {
    std::vector<std::int32_t> chosen_ranks;
    for (auto rank : all)
      if (draw.below(one_in) == 0)
        chosen_ranks.push_back(rank);
    const auto entry = [&](std::size_t set) { return ranks_[set] == chosen_ranks; };
    if (chosen_ranks.empty() || std::any_of(live.begin(), live.end(), entry))
      return false;
    begin_set(std::move(chosen_ranks), live);
    return true;
  };
  set_action first{set_action::type::create};
  for (auto number = draw.below(3); number > 0; --number)
    if (begin(2))
      first.sets.push_back(live.back());
  program_.push_back(first);
  for (std::int32_t round = 0; round < options.rounds; ++round) {
    if (live.size() < most_live && begin(1 + draw.below(4)))
      program_.push_back({set_action::type::add, {live.back()}});
    if (draw.one_in(5))
      program_.push_back({set_action::type::differ});
    set_action play{set_action::type::play, live};
    if (live.size() > 1 && draw.one_in(2)) {
      const auto gone = live.begin() + static_cast<std::ptrdiff_t>(1 + draw.below(live.size() - 1));
      play.doomed = *gone;
      live.erase(gone);
    }
    program_.push_back(play);
    if (play.doomed != 0)
      program_.push_back({set_action::type::remove, {play.doomed}});
  }
}

void set_play::begin_set(std::vector<std::int32_t> ranks, std::vector<std::size_t>& live) {
  live.push_back(ranks_.size());
  ranks_.push_back(std::move(ranks));
}

std::int32_t set_play::position(std::size_t set, std::int32_t rank) const {
  const auto& all = ranks_[set];
  const auto found = std::lower_bound(all.begin(), all.end(), rank);
  return found == all.end() || *found != rank ? -1 : static_cast<std::int32_t>(found - all.begin());
}

signature set_play::signature_of(std::size_t step, std::size_t set, std::int32_t tensor,
                                 std::int32_t rank) const {
  signature result;
  result.dtype = dtype::float32;
  const auto version = static_cast<std::int64_t>(set + step / 4);
  result.shape = {1 + tensor * 13 % 50 + version, 2};
  const auto& members = ranks_[set];
  if (tensor % 5 == 3) {
    result.operation = operation::broadcast;
    result.root = members[static_cast<std::size_t>(tensor) % members.size()];
  } else if (tensor % 5 == 4) {
    result.operation = operation::allgather;
    result.shape[0] = (position(set, rank) + version) % 4;
  } else {
    result.operation = operation::allreduce;
    result.reduce_op = reduce_op::average;
  }
  return result;
}

std::int32_t set_play::left_out_by(std::size_t step, std::size_t set, std::int32_t tensor) const {
  if (program_[step].doomed != set || set == 0)
    return -1;
  dice draw(options_.seed, left_out, step, static_cast<std::uint64_t>(tensor));
  if (!draw.one_in(3))
    return -1;
  return ranks_[set][draw.below(ranks_[set].size())];
}

bool set_play::leaves_out(std::size_t step, std::size_t set, std::int32_t tensor, std::int32_t rank) const {
  return left_out_by(step, set, tensor) == rank;
}

// In a set that ends, tensors that all members requested may still have moved.
bool set_play::allows(std::size_t step, std::size_t set, std::int32_t tensor, error_kind end) const {
  if (left_out_by(step, set, tensor) >= 0)
    return end == error_kind::aborted;
  return end == error_kind::none || (set != 0 && program_[step].doomed == set && end == error_kind::aborted);
}

} // namespace farandole::testing
