#include "collectives/paths/local/loan_plan.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "collectives/paths/bundle_bytes.hpp"

namespace farandole {

namespace {

/// The most bytes that one member has for another.
std::size_t longest(const work& bundle, std::size_t members) {
  if (bundle.operation == operation::alltoall)
    return bundle.longest;
  std::vector<std::size_t> sums(members);
  for (std::size_t i = 0; i < bundle.gathered.size(); ++i)
    sums[i % members] += bundle.gathered[i];
  return *std::max_element(sums.begin(), sums.end());
}

bool lies_within(const std::byte* memory, const std::byte* begin, std::size_t bytes) {
  return std::less_equal<>()(begin, memory) && std::less<>()(memory, begin + bytes);
}

void lend_everything(const work& bundle, std::uint32_t rank, std::uint32_t members, loan_plan& plan) {
  for (std::size_t at = 0; at < bundle.parts.size(); ++at) {
    const part& each = bundle.parts[at];
    const auto sizes = std::span(bundle.gathered).subspan(at * members, members);
    const std::size_t bytes = sizes[rank];
    std::byte* const place = each.output + start_of(bundle.gathered, at, rank, members);
    const std::size_t all = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    if (each.input != place && lies_within(each.input, each.output, all))
      plan.in_the_way = true;
    plan.lends.push_back({each.input, bytes});
    plan.keeps.push_back({each.input, place, bytes});
  }
}

void lend_segments(const work& bundle, std::uint32_t rank, std::uint32_t members, loan_plan& plan) {
  for (std::size_t at = 0; at < bundle.parts.size(); ++at) {
    const part& each = bundle.parts[at];
    const std::byte* from = each.input;
    for (std::uint32_t target = 0; target < members; ++target) {
      const std::size_t bytes = bundle.sent[at * members + target];
      plan.lends.push_back({from, bytes});
      if (target == rank)
        plan.keeps.push_back({from, each.output + start_of(bundle.received, at, rank, members), bytes});
      from += bytes;
    }
  }
}

} // namespace

std::size_t entries_lent(const work& bundle, std::size_t members) {
  return bundle.parts.size() * (bundle.operation == operation::alltoall ? members : 1);
}

bool worth_lending(const work& bundle, std::size_t members, std::size_t least_bytes, std::size_t room) {
  if (least_bytes == 0 || members < 2 || bundle.parts.empty())
    return false;
  if (bundle.operation != operation::allgather && bundle.operation != operation::alltoall)
    return false;
  return entries_lent(bundle, members) <= room / sizeof(std::uint64_t) &&
         longest(bundle, members) >= least_bytes;
}

loan_plan plan_loans(const work& bundle, std::uint32_t rank, std::uint32_t members) {
  loan_plan plan;
  const bool gathers = bundle.operation == operation::allgather;
  (gathers ? lend_everything : lend_segments)(bundle, rank, members, plan);
  const auto& sizes = gathers ? bundle.gathered : bundle.received;
  for (std::uint32_t i = 1; i < members; ++i) {
    const std::uint32_t source = (rank + i) % members;
    for (std::size_t at = 0; at < bundle.parts.size(); ++at)
      if (const std::size_t bytes = sizes[at * members + source]; bytes > 0)
        plan.takes.push_back({source, gathers ? at : at * members + rank,
                              bundle.parts[at].output + start_of(sizes, at, source, members), bytes});
  }
  return plan;
}

} // namespace farandole
