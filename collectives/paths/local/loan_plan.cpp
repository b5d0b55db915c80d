#include "collectives/paths/local/loan_plan.hpp"

#include "collectives/operation.hpp"
#include "collectives/paths/bundle_bytes.hpp"

namespace farandole {

bool worth_lending(const work& bundle, std::size_t members, std::size_t least_bytes, std::size_t room) {
  return row_of(bundle.operation).rows == row_use::dealt && members > 1 && least_bytes > 0 &&
         bundle.longest >= least_bytes && bundle.parts.size() * members <= room / sizeof(std::uint64_t);
}

loan_plan plan_loans(const work& bundle, std::uint32_t rank, std::uint32_t members) {
  loan_plan plan;
  for (std::size_t at = 0; at < bundle.parts.size(); ++at) {
    const part& each = bundle.parts[at];
    const std::byte* from = each.input;
    for (std::uint32_t target = 0; target < members; ++target) {
      const std::size_t bytes = bundle.sent[at * members + target];
      plan.lends.push_back({from, bytes});
      if (target == rank && bytes > 0)
        plan.keeps.push_back({from, each.output + start_of(bundle.received, at, rank, members), bytes});
      from += bytes;
    }
  }
  for (std::uint32_t i = 1; i < members; ++i) {
    const std::uint32_t source = (rank + i) % members;
    for (std::size_t at = 0; at < bundle.parts.size(); ++at)
      if (const std::size_t bytes = bundle.received[at * members + source]; bytes > 0)
        plan.takes.push_back({source, at * members + rank,
                              bundle.parts[at].output + start_of(bundle.received, at, source, members),
                              bytes});
  }
  return plan;
}

} // namespace farandole
