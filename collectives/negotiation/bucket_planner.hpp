// Plans buckets: sets of ids that become ready together in every step. A training step requests the same tensors
// in nearly the same order every time. The leader records the order in which they become ready. When a step has
// the same ids as the previous one, their order is cut into a few buckets of about equal size, as PyTorch's
// DistributedDataParallel cuts its gradients (Li et al., "PyTorch Distributed", VLDB 2020, section 3.2).
//
// Two consecutive tensors share a bucket only if a member had requested the later one before the earlier one was
// ready: a caller that waits for one tensor before it requests the next must not be made to wait for both. If a
// bucket is not requested as planned nevertheless, it is missed. Its ids then stay out of buckets ("rest") for
// twice as many steps as the last time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "messages/wire/negotiation.hpp"

namespace farandole {

struct planner_rules {
  std::size_t buckets = 3; ///< maximum number in a step; 0: none
  // Bounds of a bucket's patience, which is the delay that relays may add to a step that deviates from the plan.
  // The patience is four times as long as the ids of the bucket were apart.
  std::chrono::nanoseconds least_patience = std::chrono::milliseconds(10);
  std::chrono::nanoseconds most_patience = std::chrono::milliseconds(100);
  // The number of steps that ids rest after the first miss, and its maximum.
  std::uint64_t first_rest = 4;
  std::uint64_t longest_rest = 1024;
};

class bucket_planner {
public:
  explicit bucket_planner(const planner_rules& rules);

  /// All members have requested `id`, which is in no bucket. The first request came at `since`.
  void completed(std::uint32_t id, std::size_t bytes, std::chrono::nanoseconds since,
                 std::chrono::nanoseconds current_time);
  /// The id was forgotten or must not be in a bucket.
  void forget(std::uint32_t id);
  /// Excludes the current step from planning, because the participating members change.
  void spoil();

  /// Plans new buckets in addition to the existing ones. To be called after a whole message was processed.
  std::vector<bucket> plan();
  /// The bucket was requested as planned.
  void served(std::uint32_t bucket);
  /// The bucket ended, because it was not requested as planned.
  void missed(std::uint32_t bucket);

private:
  struct observation {
    std::uint32_t id = 0;
    std::size_t bytes = 0;
    std::chrono::nanoseconds since{0};
    std::chrono::nanoseconds current_time{0};
  };
  struct live {
    std::vector<std::uint32_t> ids;
    std::uint64_t rest = 0; ///< longest rest of its ids before the bucket was planned
    std::uint64_t served = 0;
    std::uint64_t last = 0; ///< the last step in which it was planned or served
  };
  struct resting {
    std::uint64_t rest = 0;
    std::uint64_t deadline = 0; ///< first step after the rest
  };
  /// Consecutive ids that may share a bucket: positions first … end − 1 of the step.
  struct run {
    std::size_t first = 0;
    std::size_t end = 0;
    std::size_t bytes = 0;
    std::size_t parts = 1;
  };
  void begin_step();
  bool rests(std::uint32_t id) const;
  std::size_t room() const;
  std::vector<run> runs() const;
  static void deal_out(std::vector<run>& from, std::size_t parts);
  void cut(const run& run, std::vector<bucket>& buckets);
  bucket make(std::size_t first, std::size_t end);

  planner_rules rules_;
  // A new step begins when an id or a bucket of the current step completes again. Order and times are recorded
  // only for ids that are in no bucket.
  std::vector<observation> step_;                    ///< in the order in which they became ready
  std::unordered_set<std::uint32_t> in_step_;        ///< ids that have completed
  std::unordered_set<std::uint32_t> served_in_step_; ///< buckets
  std::unordered_set<std::uint32_t> last_; ///< ids recorded in the previous step; empty: not comparable
  std::size_t as_last_ = 0;                ///< number of entries of step_ that are in last_
  bool spoilt_ = false;
  bool planned_ = false; ///< in this step
  std::uint64_t steps_ = 0;
  std::unordered_map<std::uint32_t, live> live_; ///< by bucket
  std::unordered_map<std::uint32_t, resting> resting_;
  std::uint32_t last_bucket_ = 0;
};

} // namespace farandole
