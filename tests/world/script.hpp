// What a simulated job does: which tensors its members submit in which step, and what goes wrong on the way.
// All of it follows from the options, so every member can look up its part and the test what must come of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/values/signature.hpp"

namespace farandole::testing {

struct job_options {
  std::uint64_t seed = 1;
  std::int32_t members = 20;
  std::int32_t tensors = 200;
  /// Steps of all members, then one that some members sit out in join(), then one of all members again.
  std::int32_t full_steps = 3;
  bool joins = true;      ///< otherwise only the former
  bool only_sums = false; ///< every tensor is an allreduce

  // Hosts, and the relays that speak for them; 0 ranks on a host: everybody speaks with the leader.
  std::int32_t host_ranks = 0;
  std::size_t fan_in = 8;
  std::size_t buckets = 3;
  bool measured = false; ///< the leader's processor time is

  // A member submits up to so many tensors at once, then waits up to so long.
  std::uint64_t at_once = 60;
  std::uint64_t between_us = 200;
  bool unnamed = false;  ///< tensors have no names: members match them by the order of their calls
  bool in_order = false; ///< the same on all members, as in a backward pass; otherwise each has its own

  std::int32_t quiet_steps = 0; ///< before anything of the following happens

  // One in so many (0: none) of all (step, tensor) …
  std::uint64_t mismatches = 100;  ///< … is submitted by one member in another shape or dtype
  std::uint64_t withdrawals = 100; ///< … is taken back by one member
  std::uint64_t changes = 50;      ///< … has another shape from here on, for all members
  std::int32_t grouped = 40;       ///< tensors that come in groups of four

  // The leader's rules.
  std::size_t cache_capacity = 1024;
  std::size_t fusion_threshold = std::size_t{64} << 10;
  std::size_t outstanding = 2;
  std::int64_t cycle_time_us = 0;
  bool groups_alone = false;

  // The network, each way, in microseconds.
  std::uint64_t latency_us = 50;
  std::uint64_t jitter_us = 100;
  std::uint64_t delayed = 50;    ///< one message in so many …
  std::uint64_t delay_us = 5000; ///< … takes up to this much longer

  /// Rules, faults and network as drawn from the seed.
  static job_options drawn(std::uint64_t seed, std::int32_t members);
};

class script {
public:
  explicit script(const job_options& options);

  const job_options& options() const { return options_; }
  std::int32_t steps() const { return options_.full_steps + (options_.joins ? 2 : 0); }
  /// -1 when nobody joins.
  std::int32_t joined_step() const { return options_.joins ? options_.full_steps : -1; }

  /// Whether `rank` submits tensors in this step; in the joined step, those that do not have joined.
  bool takes_part(std::int32_t step, std::int32_t rank) const;
  std::string name(std::int32_t tensor) const {
    return "allreduce.layer." + std::to_string(tensor) + ".weight";
  }
  signature what(std::int32_t step, std::int32_t tensor, std::int32_t rank) const;
  /// Rows for each rank where this is an alltoall that is not dealt out evenly; they change from step to
  /// step, also where the signature does not.
  std::vector<std::int64_t> splits(std::int32_t step, std::int32_t tensor, std::int32_t rank) const;
  /// The first of the four tensors that are submitted together; -1 when it is submitted alone.
  std::int32_t group_of(std::int32_t tensor) const;
  bool taken_back(std::int32_t step, std::int32_t tensor, std::int32_t rank) const;

  /// Whether the operation may end so.
  bool allows(std::int32_t step, std::int32_t tensor, error_kind end) const;

private:
  bool disagree(std::int32_t step, std::int32_t tensor) const;
  std::int32_t odd_rank(std::int32_t step, std::int32_t tensor) const;
  std::int32_t taking_back(std::int32_t step, std::int32_t tensor) const;
  bool faulty(std::int32_t step) const;
  operation kind(std::int32_t tensor) const;

  job_options options_;
  std::vector<std::vector<std::int32_t>> versions_; ///< by step and tensor
};

} // namespace farandole::testing
