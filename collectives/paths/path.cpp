#include "collectives/paths/path.hpp"

#include "collectives/paths/waiting/waiting.hpp"

namespace farandole {

void abort_token::raise() {
  word_.store(1, std::memory_order_seq_cst);
  wake_local(word_);
}

} // namespace farandole
