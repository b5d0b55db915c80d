#include "collectives/transport/hierarchical/hierarchical.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "collectives/transport/bundle_bytes.hpp"
#include "collectives/transport/progress_deadline.hpp"

namespace farandole {

namespace {

/// Processes the pieces of a member that has nothing to carry between hosts, in the order of
/// piece_callbacks.
error go_through(const piece_callbacks& callbacks) {
  for (std::size_t step = 0; step < callbacks.pieces + pieces_under_way - 1; ++step) {
    if (step < callbacks.pieces)
      if (error problem = callbacks.before(step))
        return problem;
    if (step + 1 >= pieces_under_way)
      if (error problem = callbacks.after(step + 1 - pieces_under_way))
        return problem;
  }
  return {};
}

/// Exchanges with peers on this host over `near`, and with peers of the cross-host group over `far`. In each
/// swap all members of a host, and all of a cross-host group, use the same level (hierarchy::splits_by_bits).
class hierarchical_transport : public adasum_transport {
public:
  hierarchical_transport(const hierarchy& topology, adasum_transport& near, adasum_transport& far)
      : topology_(topology), near_(near), far_(far), cross_host_group_(topology.cross_host_group()) {}

  error swap(adasum_phase phase, std::int32_t peer, std::span<const std::byte> give,
             std::span<std::byte> take, std::size_t longest) override {
    const auto position_in = [peer](const std::vector<std::int32_t>& ranks) {
      const auto found = std::find(ranks.begin(), ranks.end(), peer);
      return found == ranks.end() ? -1 : static_cast<std::int32_t>(found - ranks.begin());
    };
    if (const auto position = position_in(topology_.neighbours()); position >= 0)
      return near_.swap(phase, position, give, take, longest);
    const auto host = position_in(cross_host_group_);
    assert(host >= 0);
    return far_.swap(phase, host, give, take, longest);
  }

private:
  const hierarchy& topology_;
  adasum_transport& near_;
  adasum_transport& far_;
  const std::vector<std::int32_t> cross_host_group_; ///< ranks, by host
};

} // namespace

hierarchical_path::hierarchical_path(hierarchy topology, std::unique_ptr<path> neighbours,
                                     std::unique_ptr<p2p_path> cross_host_group)
    : topology_(std::move(topology)), neighbours_(std::move(neighbours)),
      cross_host_group_(std::move(cross_host_group)), near_(dynamic_cast<adasum_carrier*>(neighbours_.get())),
      takes_adasum_(near_ != nullptr && cross_host_group_ && topology_.splits_by_bits()) {
  assert(neighbours_ && topology_.in_cross_host_group() == (cross_host_group_ != nullptr));
}

outcome hierarchical_path::run(const work& bundle, const deadline_and_abort& deadline) {
  if (broken_)
    return {broken_};
  if (error problem = why_not_on_cpu(bundle, topology_.members()))
    return {problem};
  waited_ = {};
  timeout_ = deadline.deadline - std::chrono::steady_clock::now();
  if (bundle.operation == operation::allreduce && bundle.reduce_op == reduce_op::adasum)
    broken_ = adaptive_sum(bundle, deadline);
  else if (bundle.operation == operation::allreduce)
    broken_ = walk(hierarchical_allreduce(bundle, topology_, joined_), deadline);
  else if (bundle.operation == operation::allgather)
    broken_ = walk(hierarchical_allgather(bundle, topology_), deadline);
  else
    return {{error_kind::unimplemented, "the hierarchical path moves no such operation"}};
  return {broken_, waited_};
}

deadline_and_abort hierarchical_path::from_now(const deadline_and_abort& deadline) const {
  return {deadline.abort, deadline_after(std::chrono::steady_clock::now(), timeout_),
          deadline.deadline_setting};
}

error hierarchical_path::add(const outcome& level) {
  waited_ += level.waited;
  return level.error;
}

error hierarchical_path::adaptive_sum(const work& bundle, const deadline_and_abort& deadline) {
  assert(takes_adasum_);
  const auto nothing = [](const part& part) { return part.input_bytes == 0; };
  if (std::all_of(bundle.parts.begin(), bundle.parts.end(), nothing))
    return {};
  const auto rank = topology_.neighbours()[topology_.position];
  const auto members = static_cast<std::int32_t>(topology_.members());
  const auto over_both = [&](adasum_transport& near, adasum_transport& far) {
    hierarchical_transport both(topology_, near, far);
    return adasum(bundle, rank, members, adasum_scratch_).run(both);
  };
  const auto with_neighbours = [&](adasum_transport& near) {
    return add(cross_host_group_->carry(bundle, deadline,
                                        [&](adasum_transport& far) { return over_both(near, far); }));
  };
  return add(near_->carry(bundle, deadline, with_neighbours));
}

template <class Levels>
error hierarchical_path::walk(const Levels& levels, const deadline_and_abort& deadline) {
  const auto with_neighbours = [&](const work& task) {
    error problem = add(neighbours_->run(task, from_now(deadline)));
    if (problem)
      problem.text = "hierarchical, on this host: " + problem.text;
    return problem;
  };
  piece_callbacks callbacks;
  callbacks.pieces = levels.plan().pieces;
  callbacks.piece_bytes = levels.plan().share_bytes;
  callbacks.before = [&](std::size_t piece) { return with_neighbours(levels.before(piece)); };
  callbacks.after = [&](std::size_t piece) { return with_neighbours(levels.after(piece)); };
  const work carried = cross_host_group_ ? levels.cross_host_group() : work{};
  if (carried.parts.empty())
    return go_through(callbacks);
  if (callbacks.pieces > 1)
    return add(cross_host_group_->run(carried, from_now(deadline), callbacks));
  // A single piece needs no pipeline, and a small one then crosses in the time of one message.
  if (error problem = callbacks.before(0))
    return problem;
  if (error problem = add(cross_host_group_->run(carried, from_now(deadline))))
    return problem;
  return callbacks.after(0);
}

} // namespace farandole
