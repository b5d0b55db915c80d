#include "actors/door/pending.hpp"

#include <cassert>

namespace farandole {

void pending::renew() {
  assert(settled());
  id = 0;
  left.clear();
  collective.reset();
  seat.reset();
  round = 0;
  looked_after.store(false, std::memory_order_relaxed);
  handed_on.store(false, std::memory_order_relaxed);
  problem = {};
  outcome = {};
  owned.reset();
  handles_.store(1, std::memory_order_relaxed);
  dropped_.store(false, std::memory_order_relaxed);
  restart();
}

void pending::settle(error how) {
  assert(!settled());
  problem = std::move(how);
  publish_settled();
  if (lends && handles_.load(std::memory_order_seq_cst) == 0)
    drop_memory();
}

// The last handle and the settler each look for the other after they have told: one of them sees both.
bool pending::let_go() {
  if (handles_.fetch_sub(1, std::memory_order_seq_cst) != 1)
    return false;
  if (settled_for_all())
    drop_memory();
  return true;
}

void pending::drop_memory() {
  if (!dropped_.exchange(true, std::memory_order_relaxed))
    owned.reset();
}

bool pending::claim_and_settle(phase from, error how) {
  if (!advance(from, phase::claimed))
    return false;
  settle(std::move(how));
  return true;
}

} // namespace farandole
