#include "actors/door/request_check.hpp"

#include <algorithm>
#include <functional>
#include <string>

#include "collectives/math/adasum.hpp"
#include "collectives/operation.hpp"
#include "collectives/plan/set_registry.hpp"
#include "messages/negotiation.hpp"
#include "messages/printable.hpp"

namespace farandole {

namespace {

error refuse(const submission& what, std::string text, error_kind kind = error_kind::invalid_argument) {
  return {kind, printable_name(what.name) + ": " + std::move(text)};
}

error wrong_reduction(const submission& what, std::int32_t members) {
  if (!row_of(what.signature.operation).reduces)
    return {};
  if (what.signature.reduce_op == reduce_op::adasum) {
    if (!row_of(what.signature.operation).takes_adasum)
      return refuse(what,
                    "Adasum has no " + std::string(row_of(what.signature.operation).name) +
                        ": it needs whole tensors; use Average, Sum, Min, Max or Product",
                    error_kind::aborted);
    auto problem = why_no_adasum(what.signature.dtype, static_cast<std::size_t>(members));
    return problem ? refuse(what, std::move(problem.text), problem.kind) : error{};
  }
  if (what.signature.dtype == dtype::boolean)
    return refuse(what, "bool cannot be reduced; convert it to uint8 first");
  return {};
}

// Every member reads all inputs until the last has its segment, so no output may lie among them. Of an output
// that begins before them only the rows count that every member gets: who gets one more is not known here,
// and what lies just behind the output of another may well be an input.
error wrong_scatter(const submission& what, std::int32_t members) {
  if (row_of(what.signature.operation).rows != row_use::segmented)
    return {};
  if (what.signature.shape.empty())
    return refuse(what, "reducescatter of a scalar; give it a dimension first");
  if (!what.output)
    return {};
  const auto rows = what.signature.shape[0] / members;
  const auto segment = static_cast<std::size_t>(rows) * bytes_of_row(what.signature);
  const auto input =
      static_cast<std::size_t>(element_count(what.signature.shape)) * size_of(what.signature.dtype);
  const std::less<const std::byte*> before;
  const auto begins_among = !before(what.output, what.input) && before(what.output, what.input + input);
  const auto reaches_in = before(what.output, what.input) && before(what.input, what.output + segment);
  if (begins_among || reaches_in)
    return refuse(what, "the output of a reducescatter overlaps its input");
  return {};
}

error wrong_splits(const submission& what, std::int32_t members) {
  if (row_of(what.signature.operation).rows != row_use::dealt)
    return what.splits.empty() ? error{} : refuse(what, "only an alltoall takes splits");
  const auto& extents = what.signature.shape;
  const auto wanted = static_cast<std::size_t>(members);
  if (what.splits.empty()) {
    // Of a scalar the leader tells, as of one that is gathered.
    if (!extents.empty() && extents[0] % members != 0)
      return refuse(what, "the first dimension, " + std::to_string(extents[0]) +
                              ", cannot be dealt out evenly to " + std::to_string(members) +
                              " ranks; give splits");
    return {};
  }
  if (what.splits.size() != wanted)
    return refuse(what, std::to_string(what.splits.size()) + " splits for " + std::to_string(members) +
                            " ranks; give one each");
  if (extents.empty())
    return refuse(what, "splits of a scalar; give it a dimension first");
  std::int64_t rows = 0;
  for (auto split : what.splits) {
    if (split < 0)
      return refuse(what, "split " + std::to_string(split) + " is negative");
    if (__builtin_add_overflow(rows, split, &rows))
      return refuse(what, "the splits sum to more than can be counted");
  }
  if (rows != extents[0])
    return refuse(what, "the splits sum to " + std::to_string(rows) + ", the first dimension has " +
                            std::to_string(extents[0]));
  return {};
}

// Root ranks are global ones, also in a process set.
error wrong_root(const submission& what, std::int32_t members, std::span<const std::int32_t> ranks) {
  if (!row_of(what.signature.operation).has_root)
    return {};
  const auto place = place_of(what.signature.root, ranks);
  if (place >= 0 && place < members)
    return {};
  return refuse(what, "root rank " + std::to_string(what.signature.root) +
                          " is not in the process set of ranks " +
                          (ranks.empty() ? "0 to " + std::to_string(members - 1)
                                         : ranks_to_text({ranks.begin(), ranks.end()})));
}

} // namespace

std::int32_t place_of(std::int32_t rank, std::span<const std::int32_t> ranks) {
  if (ranks.empty() || rank < 0)
    return rank;
  auto found = std::lower_bound(ranks.begin(), ranks.end(), rank);
  return found != ranks.end() && *found == rank ? static_cast<std::int32_t>(found - ranks.begin()) : -1;
}

error wrong_request(const submission& what, std::int32_t members, std::span<const std::int32_t> ranks) {
  const auto& wanted = what.signature;
  if (what.name.empty() || what.name.size() > name_limit_bytes)
    return {error_kind::invalid_argument, "a tensor's name must have 1 to " +
                                              std::to_string(name_limit_bytes) + " bytes, not " +
                                              std::to_string(what.name.size())};
  if (wanted.shape.size() > rank_limit)
    return refuse(what, std::to_string(wanted.shape.size()) + " dimensions; at most " +
                            std::to_string(rank_limit) + " are taken");
  if (auto problem = wrong_root(what, members, ranks))
    return problem;
  if (wanted.operation == operation::join && !ranks.empty())
    return refuse(what, "join is for the global process set only");
  if (auto problem = wrong_reduction(what, members))
    return problem;
  if (auto problem = wrong_scatter(what, members))
    return problem;
  return wrong_splits(what, members);
}

std::vector<std::int64_t> splits_of(const submission& what, std::int32_t members) {
  if (row_of(what.signature.operation).rows != row_use::dealt || what.signature.shape.empty())
    return {};
  if (!what.splits.empty())
    return {what.splits.begin(), what.splits.end()};
  return std::vector(static_cast<std::size_t>(members), what.signature.shape[0] / members);
}

} // namespace farandole
