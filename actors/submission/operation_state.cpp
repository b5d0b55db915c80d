#include "actors/submission/operation_state.hpp"

#include <cassert>

#include "actors/submission/nvtx_ranges.hpp"
#include "actors/submission/recorded_operation.hpp"

namespace farandole {

void operation_state::renew() {
  assert(settled());
  id = 0;
  left.clear();
  collective.reset();
  taken_slot.reset();
  round = 0;
  watch_requested.store(false, std::memory_order_relaxed);
  handed_on.store(false, std::memory_order_relaxed);
  ready.reset();
  on_device = {};
  given_up.store(false, std::memory_order_relaxed);
  for (auto* error : {&problem, &late_problem})
    if (*error)
      *error = {};
  outcome = {};
  owned.reset();
  handles_.store(1, std::memory_order_relaxed);
  dropped_.store(false, std::memory_order_relaxed);
  restart();
}

std::uint8_t operation_state::recorded_operation() const {
  return farandole::recorded_operation(signature.operation, signature.reduce_op);
}

// The event is recorded first, so a caller that sees the end can rely on finding it in the record.
void operation_state::settle(error reason, std::uint64_t recorded_round) {
  assert(!settled());
  problem = std::move(reason);
  record(event_kind::settled, static_cast<std::uint8_t>(problem.kind), recorded_round);
  if (profiled)
    profiled.reset();
  publish_settled();
  if (owns_output && handles_.load(std::memory_order_seq_cst) == 0)
    drop_memory();
}

// The thread that drops the last handle and the settling thread each publish their own step and then read the
// other's, in sequentially consistent order: at least one of them sees both.
bool operation_state::drop_handle() {
  if (handles_.fetch_sub(1, std::memory_order_seq_cst) != 1)
    return false;
  if (settled_for_all())
    drop_memory();
  return true;
}

void operation_state::drop_memory() {
  if (!dropped_.exchange(true, std::memory_order_relaxed))
    owned.reset();
}

bool operation_state::claim_and_settle(phase from, error reason) {
  if (!advance(from, phase::claimed))
    return false;
  settle(std::move(reason));
  return true;
}

bool operation_state::claim_and_settle_without_result() {
  if (!advance(phase::queued, phase::claimed))
    return false;
  outcome.kind = result_kind::none;
  on_device.done = ready;
  settle({});
  return true;
}

void operation_state::become_gather(farandole::dtype dtype, std::int64_t row_elements) {
  assert(absent);
  signature.operation = operation::allgather;
  signature.dtype = dtype;
  signature.memory = memory_kind::host;
  signature.shape = {0, row_elements};
  outcome.kind = result_kind::rows;
  outcome.dtype = dtype;
  outcome.row_elements = row_elements;
  output = nullptr;
  bytes = 0;
  memory = {};
  ready.reset();
}

} // namespace farandole
