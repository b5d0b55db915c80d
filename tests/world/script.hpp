// The script of a simulated job: the tensors that its members submit in each step, and the faults. Everything
// follows from the options, so every member can look up its part and the test the expected results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/values/result.hpp"
#include "messages/values/signature.hpp"

namespace farandole::testing {

struct job_options {
  std::uint64_t seed = 1;
  std::int32_t members = 20;
  std::int32_t tensors = 200;
  /// Number of steps of all members. They are followed by a step that some members spend in join(), and by a
  /// last step of all members.
  std::int32_t full_steps = 3;
  bool joins = true;      ///< if false, there are only the full steps
  bool only_sums = false; ///< every tensor is an allreduce

  // Hosts and their relays; with 0 ranks on a host there are no relays.
  std::int32_t host_ranks = 0;
  std::size_t fan_in = 8;
  std::size_t buckets = 3;
  bool measured = false; ///< whether the leader's processor time is measured

  // A member submits up to `at_once` tensors at a time, then waits up to `between_us`.
  std::uint64_t at_once = 60;
  std::uint64_t between_us = 200;
  bool unnamed = false; ///< tensors have no names: members match them by the order of their calls
  /// All members have the same order, as in a backward pass; otherwise each has its own.
  bool in_order = false;

  std::int32_t quiet_steps = 0; ///< steps before the following faults begin

  // One of this number (0: none) of all pairs (step, tensor) …
  std::uint64_t mismatches = 100;  ///< … is submitted by one member in another shape or dtype
  std::uint64_t withdrawals = 100; ///< … is withdrawn by one member
  std::uint64_t changes = 50;      ///< … has another shape from here on, for all members
  std::uint64_t absences = 0;      ///< … lacks the contribution of some members or all, if it is averaged
  std::int32_t grouped = 40;       ///< number of tensors in groups of four

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
  /// The step in which members join; -1 if no member joins.
  std::int32_t joined_step() const { return options_.joins ? options_.full_steps : -1; }

  /// Whether `rank` submits tensors in this step; in the joined step the other ranks have joined.
  bool takes_part(std::int32_t step, std::int32_t rank) const;
  std::string name(std::int32_t tensor) const {
    return "allreduce.layer." + std::to_string(tensor) + ".weight";
  }
  signature signature_of(std::int32_t step, std::int32_t tensor, std::int32_t rank) const;
  /// The rows for each rank if this is an alltoall with uneven splits. They change from step to step, even if
  /// the signature does not.
  std::vector<std::int64_t> splits(std::int32_t step, std::int32_t tensor, std::int32_t rank) const;
  /// The first of the four tensors that are submitted together; -1 if it is submitted alone.
  std::int32_t group_of(std::int32_t tensor) const;
  /// Whether the rank contributes nothing.
  bool absent(std::int32_t step, std::int32_t tensor, std::int32_t rank) const;
  /// The kind of result that the rank gets if the operation ends well.
  result_kind result_of(std::int32_t step, std::int32_t tensor, std::int32_t rank) const;
  bool taken_back(std::int32_t step, std::int32_t tensor, std::int32_t rank) const;

  /// Whether the operation may end with this result.
  bool allows(std::int32_t step, std::int32_t tensor, error_kind end) const;

private:
  bool lacks(std::int32_t step, std::int32_t tensor) const;
  bool lacks_all(std::int32_t step, std::int32_t tensor) const;
  /// Whether the ranks that contribute to it gather rows.
  bool sparse(std::int32_t step, std::int32_t tensor) const;
  bool disagree(std::int32_t step, std::int32_t tensor) const;
  std::int32_t odd_rank(std::int32_t step, std::int32_t tensor) const;
  std::int32_t taking_back(std::int32_t step, std::int32_t tensor) const;
  bool faulty(std::int32_t step) const;
  operation kind(std::int32_t tensor) const;

  job_options options_;
  std::vector<std::vector<std::int32_t>> versions_; ///< by step and tensor
};

} // namespace farandole::testing
