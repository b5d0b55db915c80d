#include "tests/world/script.hpp"

#include "collectives/operation.hpp"
#include "tests/world/dice.hpp"

namespace farandole::testing {

namespace {

// Random streams, one for each kind of decision.
enum stream : std::uint64_t { rules = 1, change, odd, back, sits_out, lack };

std::uint64_t number(std::int32_t value) {
  return static_cast<std::uint64_t>(value);
}

} // namespace

job_options job_options::drawn(std::uint64_t seed, std::int32_t members) {
  dice draw(seed, rules);
  auto one_of = [&](auto... values) {
    const decltype((values + ...)) all[] = {values...};
    return all[draw.below(sizeof...(values))];
  };
  job_options options;
  options.seed = seed;
  options.members = members;
  options.mismatches = one_of(0u, 400u, 100u, 20u);
  options.withdrawals = one_of(0u, 400u, 100u, 20u);
  options.changes = one_of(0u, 200u, 20u);
  options.grouped = one_of(0, 40, 120);
  options.cache_capacity = one_of(0u, 16u, 150u, 1024u, 1024u);
  options.fusion_threshold = one_of(0u, 4096u, 65536u, 1u << 27);
  options.outstanding = one_of(1u, 2u, 8u);
  options.cycle_time_us = one_of(0, 0, 200);
  options.groups_alone = draw.one_in(3);
  options.latency_us = one_of(0u, 50u, 500u);
  options.jitter_us = one_of(1u, 100u, 3000u);
  options.delayed = one_of(0u, 50u, 5u);
  options.absences = one_of(0u, 100u, 5u);
  return options;
}

script::script(const job_options& options) : options_(options) {
  versions_.assign(number(steps()), std::vector<std::int32_t>(number(options.tensors)));
  for (std::int32_t step = 1; step < steps(); ++step)
    for (std::int32_t tensor = 0; tensor < options.tensors; ++tensor)
      versions_[number(step)][number(tensor)] =
          versions_[number(step) - 1][number(tensor)] +
          (step >= options.quiet_steps &&
                   dice(options.seed, change, number(step), number(tensor)).one_in(options.changes)
               ? 1
               : 0);
}

bool script::takes_part(std::int32_t step, std::int32_t rank) const {
  if (step != joined_step())
    return true;
  // At least one member takes part, and at least one of several members does not.
  const auto last = dice(options_.seed, sits_out).below(number(options_.members));
  if (number(rank) == last)
    return true;
  return number(rank) != (last + 1) % number(options_.members) &&
         !dice(options_.seed, sits_out, number(rank)).one_in(3);
}

operation script::kind(std::int32_t tensor) const {
  if (options_.only_sums)
    return operation::allreduce;
  if (group_of(tensor) >= 0)
    return group_of(tensor) % 40 == 8 ? operation::reducescatter : operation::allreduce;
  switch (tensor % 20) {
  case 7:
    return operation::allgather;
  case 9:
    return operation::reducescatter;
  case 13:
    return operation::broadcast;
  case 17:
    return operation::alltoall;
  default:
    return operation::allreduce;
  }
}

signature script::signature_of(std::int32_t step, std::int32_t tensor, std::int32_t rank) const {
  signature result;
  result.operation = kind(tensor);
  result.dtype = tensor % 10 == 4 ? dtype::int64 : dtype::float32;
  const auto version = versions_[number(step)][number(tensor)];
  const std::int64_t extent = 1 + tensor * 37 % 1000 + version;
  result.shape = {extent, 2};
  if (row_of(result.operation).reduces)
    result.reduce_op = tensor % 30 == 11 ? reduce_op::max : reduce_op::average;
  else if (result.operation == operation::broadcast)
    result.root = tensor % options_.members;
  else
    result.shape[0] = (rank + version) % 5;
  if (result.operation == operation::alltoall)
    result.shape[0] *= options_.members;
  if (sparse(step, tensor) && !absent(step, tensor, rank)) {
    result.operation = operation::allgather;
    result.reduce_op = reduce_op::sum;
    result.dtype = dtype::int64;
    result.shape = {1 + (rank + version) % 5, 2};
  } else if (sparse(step, tensor) && tensor % 3 == 0 && result.dtype != dtype::int64) {
    // Like a message of a compressor that gathers.
    result.operation = operation::allgather;
    result.reduce_op = reduce_op::sum;
  }
  if (odd_rank(step, tensor) == rank) {
    if (tensor % 2 == 0)
      result.shape[1] = 3;
    else
      result.dtype = dtype::float64;
  }
  return result;
}

std::vector<std::int64_t> script::splits(std::int32_t step, std::int32_t tensor, std::int32_t rank) const {
  if (kind(tensor) != operation::alltoall || (step + rank) % 3 == 0)
    return {};
  std::vector<std::int64_t> rows(number(options_.members));
  rows[number(step + rank + tensor) % rows.size()] = signature_of(step, tensor, rank).shape[0];
  return rows;
}

std::int32_t script::group_of(std::int32_t tensor) const {
  return tensor < options_.grouped ? tensor / 4 * 4 : -1;
}

// Tensors that are averaged. In a third of the cases, all ranks lack it.
bool script::lacks(std::int32_t step, std::int32_t tensor) const {
  return faulty(step) && kind(tensor) == operation::allreduce && tensor % 30 != 11 &&
         dice(options_.seed, lack, number(step), number(tensor)).one_in(options_.absences);
}

bool script::absent(std::int32_t step, std::int32_t tensor, std::int32_t rank) const {
  if (!lacks(step, tensor))
    return false;
  return dice(options_.seed, lack, number(step), number(tensor) + 1'000'000).one_in(3) ||
         dice(options_.seed, lack, number(step), number(tensor) + number(rank + 2) * 1'000'000).one_in(2);
}

bool script::lacks_all(std::int32_t step, std::int32_t tensor) const {
  for (std::int32_t rank = 0; rank < options_.members; ++rank)
    if (takes_part(step, rank) && !absent(step, tensor, rank))
      return false;
  return true;
}

bool script::sparse(std::int32_t step, std::int32_t tensor) const {
  return lacks(step, tensor) && group_of(tensor) < 0 && !options_.unnamed && (step + tensor) % 2 == 0;
}

result_kind script::result_of(std::int32_t step, std::int32_t tensor, std::int32_t rank) const {
  if (lacks(step, tensor) && lacks_all(step, tensor))
    return result_kind::none;
  return sparse(step, tensor) && absent(step, tensor, rank) ? result_kind::rows : result_kind::requested;
}

bool script::faulty(std::int32_t step) const {
  return step >= options_.quiet_steps && step + 1 < steps();
}

std::int32_t script::odd_rank(std::int32_t step, std::int32_t tensor) const {
  dice draw(options_.seed, odd, number(step), number(tensor));
  if (!faulty(step) || lacks(step, tensor) || !draw.one_in(options_.mismatches))
    return -1;
  return static_cast<std::int32_t>(draw.below(number(options_.members)));
}

std::int32_t script::taking_back(std::int32_t step, std::int32_t tensor) const {
  dice draw(options_.seed, back, number(step), number(tensor));
  if (!faulty(step) || !draw.one_in(options_.withdrawals))
    return -1;
  return static_cast<std::int32_t>(draw.below(number(options_.members)));
}

bool script::taken_back(std::int32_t step, std::int32_t tensor, std::int32_t rank) const {
  return taking_back(step, tensor) == rank;
}

bool script::disagree(std::int32_t step, std::int32_t tensor) const {
  const auto rank = odd_rank(step, tensor);
  if (rank < 0 || !takes_part(step, rank))
    return false;
  for (std::int32_t other = 0; other < options_.members; ++other)
    if (other != rank && takes_part(step, other))
      return true;
  return false;
}

bool script::allows(std::int32_t step, std::int32_t tensor, error_kind end) const {
  if (end == error_kind::aborted) {
    const auto rank = taking_back(step, tensor);
    return rank >= 0 && takes_part(step, rank);
  }
  // A joined member can contribute zeros only to some operations; the others fail if a member has joined.
  const bool takes_zeros =
      row_of(kind(tensor)).takes_zeros && (!sparse(step, tensor) || lacks_all(step, tensor));
  const bool fails =
      disagree(step, tensor) || (step == joined_step() && options_.members > 1 && !takes_zeros);
  return fails ? end == error_kind::mismatch || end == error_kind::precondition : end == error_kind::none;
}

} // namespace farandole::testing
