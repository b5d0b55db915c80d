#include "collectives/paths/hierarchical/hierarchical.hpp"

#include <cassert>
#include <utility>

#include "collectives/paths/bundle_bytes.hpp"

namespace farandole {

namespace {

/// The order in which pieces are gone through by who has nothing to carry; that of piece_interludes.
error go_through(const piece_interludes& around) {
  for (std::size_t step = 0; step < around.pieces + pieces_under_way - 1; ++step) {
    if (step < around.pieces)
      if (error problem = around.before(step))
        return problem;
    if (step + 1 >= pieces_under_way)
      if (error problem = around.after(step + 1 - pieces_under_way))
        return problem;
  }
  return {};
}

} // namespace

hierarchical_path::hierarchical_path(hierarchy where, std::unique_ptr<path> neighbours,
                                     std::unique_ptr<ucx_path> column)
    : where_(std::move(where)), neighbours_(std::move(neighbours)), column_(std::move(column)) {
  assert(neighbours_ && where_.in_column() == (column_ != nullptr));
}

outcome hierarchical_path::run(const work& bundle, const limits& until) {
  if (broken_)
    return {broken_};
  if (error problem = why_not_on_cpu(bundle, where_.members()))
    return {problem};
  if (bundle.operation == operation::allreduce)
    broken_ = walk(two_level_allreduce(bundle, where_, joined_), until);
  else if (bundle.operation == operation::allgather)
    broken_ = walk(two_level_allgather(bundle, where_), until);
  else
    return {{error_kind::unimplemented, "the hierarchical path moves no such operation"}};
  return {broken_};
}

template <class Levels>
error hierarchical_path::walk(const Levels& levels, const limits& until) {
  const auto with_neighbours = [&](const work& what) {
    error problem = neighbours_->run(what, until).error;
    if (problem)
      problem.text = "hierarchical, on this host: " + problem.text;
    return problem;
  };
  piece_interludes around;
  around.pieces = levels.plan().pieces;
  around.piece_bytes = levels.plan().share_bytes;
  around.before = [&](std::size_t piece) { return with_neighbours(levels.before(piece)); };
  around.after = [&](std::size_t piece) { return with_neighbours(levels.after(piece)); };
  const work carried = column_ ? levels.column() : work{};
  if (carried.parts.empty())
    return go_through(around);
  if (around.pieces > 1)
    return column_->run(carried, until, around).error;
  // One piece: small ones cross in a single message's time.
  if (error problem = around.before(0))
    return problem;
  if (error problem = column_->run(carried, until).error)
    return problem;
  return around.after(0);
}

} // namespace farandole
