#include "collectives/transport/path.hpp"

#include "collectives/transport/wait/futex_wait.hpp"

namespace farandole {

void abort_token::raise() {
  word_.store(1, std::memory_order_seq_cst);
  wake_local(word_);
}

} // namespace farandole
