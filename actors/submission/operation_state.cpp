#include "actors/submission/operation_state.hpp"

#include <cassert>

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
  problem = {};
  outcome = {};
  owned.reset();
  handles_.store(1, std::memory_order_relaxed);
  dropped_.store(false, std::memory_order_relaxed);
  restart();
}

void operation_state::settle(error reason) {
  assert(!settled());
  problem = std::move(reason);
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

} // namespace farandole
