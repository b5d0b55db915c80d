// Records the bundles and results of the members of a simulated job, and checks that they are the same on all
// members. The first report of a bundle or result counts, and every later report must agree with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/process_set/lane.hpp"
#include "messages/values/error.hpp"

namespace farandole::testing {

class chronicle {
public:
  explicit chronicle(std::int32_t members) : next_(static_cast<std::size_t>(members)) {}

  /// `rank` runs this bundle. `may_stand_in`: the rank has joined.
  void ran(std::int32_t rank, const lane_task& task, bool may_stand_in);
  /// An operation of (step, tensor) has ended with this result on a member.
  void ended(std::size_t step, std::size_t tensor, error_kind settings, const std::string& location);
  void problem(std::string text);

  std::size_t bundles() const { return bundles_.size(); }
  /// Whether every member ran all bundles.
  bool complete() const;
  /// The number of operations of all members that ended with this result.
  std::uint64_t count(error_kind kind) const { return counts_[static_cast<std::size_t>(kind)]; }
  /// The first few problems.
  const std::vector<std::string>& problems() const { return problems_; }
  std::uint64_t hash() const;

private:
  struct entry {
    std::string name; ///< empty while only joined members have run it
    std::size_t bytes = 0;
  };
  struct record {
    operation asked_operation = operation::allreduce;
    dtype type = dtype::float32;
    reduce_op op = reduce_op::sum;
    std::vector<entry> entries;
    std::vector<std::size_t> gathered;
  };
  static bool same_kind(const record& recorded, const work& bundle);
  void compare(record& recorded, std::int32_t rank, const lane_task& task, bool may_stand_in);

  std::vector<record> bundles_;
  std::vector<std::uint64_t> next_; ///< next sequence number of each member
  std::vector<std::vector<std::int16_t>> ends_;
  std::uint64_t counts_[error_kind_count] = {};
  std::vector<std::string> problems_;
};

} // namespace farandole::testing
