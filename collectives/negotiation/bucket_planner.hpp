// Which ids come together step after step. A training step asks for the same tensors in nearly the same order
// every time, so the leader watches in which order they become ready, and cuts the order of a step that was
// like the one before into a few buckets of about equal bytes, as PyTorch's DistributedDataParallel cuts its
// gradients (Li et al., "PyTorch Distributed", VLDB 2020, section 3.2).
//
// Two tensors that follow each other are in one bucket only if somebody had asked for the later one before
// the earlier was ready: who waits for one before it asks for the next must not be made to wait for both.
// Where that goes wrong all the same the bucket is missed; its ids then rest for twice as many steps as the
// last time.
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
  std::size_t buckets = 3; ///< in a step; 0: none
  // What relays may add to a step that does not go as planned: four times as long as the ids were apart.
  std::chrono::nanoseconds least_patience = std::chrono::milliseconds(10);
  std::chrono::nanoseconds most_patience = std::chrono::milliseconds(100);
  // Steps that ids rest after a miss.
  std::uint64_t first_rest = 4;
  std::uint64_t longest_rest = 1024;
};

class bucket_planner {
public:
  explicit bucket_planner(const planner_rules& rules);

  /// All have asked for `id`, which is in no bucket; somebody did so first at `since`.
  void completed(std::uint32_t id, std::size_t bytes, std::chrono::nanoseconds since,
                 std::chrono::nanoseconds current_time);
  /// It means nothing any more, or is not to be in a bucket.
  void forget(std::uint32_t id);
  /// This step is not like others: who takes part changes.
  void spoil();

  /// The buckets that are to be from now on, besides those that are; to be asked when all of a message is
  /// taken.
  std::vector<bucket> plan();
  /// All of a bucket came as planned.
  void served(std::uint32_t bucket);
  /// A bucket is no more, because it did not come as planned.
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
    std::uint64_t rest = 0; ///< of its ids before it, the longest
    std::uint64_t served = 0;
    std::uint64_t last = 0; ///< step in which it was
  };
  struct resting {
    std::uint64_t rest = 0;
    std::uint64_t deadline = 0; ///< step
  };
  /// Neighbours that may share a bucket: positions first … end − 1 of the step.
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
  // A step begins with whatever comes again. Only what is in no bucket is watched closely.
  std::vector<observation> step_;                    ///< in the order in which they became ready
  std::unordered_set<std::uint32_t> in_step_;        ///< ids that have come
  std::unordered_set<std::uint32_t> served_in_step_; ///< buckets
  std::unordered_set<std::uint32_t> last_; ///< watched in the step before; empty: not to be compared
  std::size_t as_last_ = 0;                ///< of step_ that are in last_
  bool spoilt_ = false;
  bool planned_ = false; ///< in this step
  std::uint64_t steps_ = 0;
  std::unordered_map<std::uint32_t, live> live_; ///< by bucket
  std::unordered_map<std::uint32_t, resting> resting_;
  std::uint32_t last_bucket_ = 0;
};

} // namespace farandole
