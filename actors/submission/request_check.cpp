#include "actors/submission/request_check.hpp"

#include <algorithm>
#include <functional>
#include <string>

#include "collectives/math/adasum.hpp"
#include "collectives/negotiation/set_registry.hpp"
#include "collectives/operation.hpp"
#include "messages/values/printable.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

namespace {

error refuse(const submission& request, std::string text, error_kind kind = error_kind::invalid_argument) {
  return {kind, printable_name(request.name) + ": " + std::move(text)};
}

error wrong_reduction(const submission& request, std::int32_t members) {
  if (!row_of(request.signature.operation).reduces)
    return {};
  if (request.signature.reduce_op == reduce_op::adasum) {
    if (!row_of(request.signature.operation).takes_adasum)
      return refuse(request,
                    "Adasum has no " + std::string(row_of(request.signature.operation).name) +
                        ": it needs whole tensors; use Average, Sum, Min, Max or Product",
                    error_kind::aborted);
    auto problem = why_no_adasum(request.signature.dtype, static_cast<std::size_t>(members));
    return problem ? refuse(request, std::move(problem.text), problem.kind) : error{};
  }
  if (request.signature.dtype == dtype::boolean)
    return refuse(request, "bool cannot be reduced; convert it to uint8 first");
  return {};
}

// Every member reads all inputs until the last member has its segment, so no output may overlap the input.
error wrong_scatter(const submission& request, std::int32_t members) {
  if (row_of(request.signature.operation).rows != row_use::segmented)
    return {};
  if (request.signature.shape.empty())
    return refuse(request, "reducescatter of a scalar; give it a dimension first");
  if (!request.output)
    return {};
  const std::less<const std::byte*> before;
  const auto begins_among =
      !before(request.output, request.input) && before(request.output, request.input + input_bytes(request));
  const auto reaches_in = before(request.output, request.input) &&
                          before(request.input, request.output + output_bytes(request, members));
  if (begins_among || reaches_in)
    return refuse(request, "the output of a reducescatter overlaps its input");
  return {};
}

error wrong_splits(const submission& request, std::int32_t members) {
  if (row_of(request.signature.operation).rows != row_use::dealt)
    return request.splits.empty() ? error{} : refuse(request, "only an alltoall takes splits");
  const auto& extents = request.signature.shape;
  const auto wanted = static_cast<std::size_t>(members);
  if (request.splits.empty()) {
    // The leader refuses a scalar, as it does for an allgather.
    if (!extents.empty() && extents[0] % members != 0)
      return refuse(request, "the first dimension, " + std::to_string(extents[0]) +
                                 ", cannot be dealt out evenly to " + std::to_string(members) +
                                 " ranks; give splits");
    return {};
  }
  if (request.splits.size() != wanted)
    return refuse(request, std::to_string(request.splits.size()) + " splits for " + std::to_string(members) +
                               " ranks; give one each");
  if (extents.empty())
    return refuse(request, "splits of a scalar; give it a dimension first");
  std::int64_t rows = 0;
  for (auto split : request.splits) {
    if (split < 0)
      return refuse(request, "split " + std::to_string(split) + " is negative");
    if (__builtin_add_overflow(rows, split, &rows))
      return refuse(request, "the splits sum to more than can be counted");
  }
  if (rows != extents[0])
    return refuse(request, "the splits sum to " + std::to_string(rows) + ", the first dimension has " +
                               std::to_string(extents[0]));
  return {};
}

// Zeros stand in for what is absent, so they must not change the result of the others.
error wrong_absence(const submission& request) {
  const auto& wanted = request.signature;
  const bool adds = wanted.reduce_op == reduce_op::sum || wanted.reduce_op == reduce_op::average ||
                    wanted.reduce_op == reduce_op::adasum;
  if (!request.absent || wanted.operation == operation::allgather ||
      (wanted.operation == operation::allreduce && adds))
    return {};
  return refuse(request,
                "only to an allreduce with Sum, Average or Adasum, or to an allgather, a rank may contribute "
                "nothing");
}

// Root ranks are global ranks, also in a process set.
error wrong_root(const submission& request, std::int32_t members, std::span<const std::int32_t> ranks) {
  if (!row_of(request.signature.operation).has_root)
    return {};
  const auto root = rank_in_set(request.signature.root, ranks);
  if (root >= 0 && root < members)
    return {};
  return refuse(request, "root rank " + std::to_string(request.signature.root) +
                             " is not in the process set of ranks " +
                             (ranks.empty() ? "0 to " + std::to_string(members - 1)
                                            : ranks_to_text({ranks.begin(), ranks.end()})));
}

} // namespace

std::int32_t rank_in_set(std::int32_t rank, std::span<const std::int32_t> ranks) {
  if (ranks.empty() || rank < 0)
    return rank;
  auto found = std::lower_bound(ranks.begin(), ranks.end(), rank);
  return found != ranks.end() && *found == rank ? static_cast<std::int32_t>(found - ranks.begin()) : -1;
}

error wrong_request(const submission& request, std::int32_t members, std::span<const std::int32_t> ranks) {
  const auto& wanted = request.signature;
  if (request.name.empty() || request.name.size() > name_limit_bytes)
    return {error_kind::invalid_argument, "a tensor's name must have 1 to " +
                                              std::to_string(name_limit_bytes) + " bytes, not " +
                                              std::to_string(request.name.size())};
  if (wanted.shape.size() > dimension_limit)
    return refuse(request, std::to_string(wanted.shape.size()) + " dimensions; at most " +
                               std::to_string(dimension_limit) + " are taken");
  if (auto problem = wrong_root(request, members, ranks))
    return problem;
  if (wanted.operation == operation::join && !ranks.empty())
    return refuse(request, "join is for the global process set only");
  if (auto problem = wrong_reduction(request, members))
    return problem;
  if (auto problem = wrong_absence(request))
    return problem;
  if (auto problem = wrong_scatter(request, members))
    return problem;
  return wrong_splits(request, members);
}

std::size_t input_bytes(const submission& request) {
  return static_cast<std::size_t>(element_count(request.signature.shape)) * size_of(request.signature.dtype);
}

// A member cannot know here whether it gets one more row. If it does not, the memory right behind the output may well be
// another tensor.
std::size_t output_bytes(const submission& request, std::int32_t members) {
  if (row_of(request.signature.operation).rows != row_use::segmented || request.signature.shape.empty())
    return input_bytes(request);
  return static_cast<std::size_t>(request.signature.shape[0] / members) * bytes_of_row(request.signature);
}

error wrong_group(std::span<const submission> requests, std::int32_t members) {
  const auto overlap = [](const submission& request, const submission& neighbour) {
    return refuse(request,
                  "its memory overlaps that of " + printable_name(neighbour.name) +
                      ", which is in the same group, and one of them is written; give each tensor once");
  };
  std::vector<const submission*> writers;
  for (const auto& request : requests)
    if (request.output && output_bytes(request, members) != 0)
      writers.push_back(&request);
  const std::less<const std::byte*> before;
  std::sort(writers.begin(), writers.end(),
            [&](const auto* left, const auto* right) { return before(left->output, right->output); });
  for (std::size_t i = 1; i < writers.size(); ++i)
    if (before(writers[i]->output, writers[i - 1]->output + output_bytes(*writers[i - 1], members)))
      return overlap(*writers[i], *writers[i - 1]);
  for (const auto& request : requests) {
    if (request.input == request.output || input_bytes(request) == 0)
      continue;
    // The outputs that begin before the input ends. They do not overlap each other, so the last ones end last.
    auto next = std::partition_point(writers.begin(), writers.end(), [&](const auto* writer) {
      return before(writer->output, request.input + input_bytes(request));
    });
    for (; next != writers.begin(); --next) {
      const auto& writer = **std::prev(next);
      if (!before(request.input, writer.output + output_bytes(writer, members)))
        break;
      if (&writer != &request)
        return overlap(request, writer);
    }
  }
  return {};
}

std::vector<std::int64_t> splits_of(const submission& request, std::int32_t members) {
  if (row_of(request.signature.operation).rows != row_use::dealt || request.signature.shape.empty())
    return {};
  if (!request.splits.empty())
    return {request.splits.begin(), request.splits.end()};
  return std::vector(static_cast<std::size_t>(members), request.signature.shape[0] / members);
}

} // namespace farandole
