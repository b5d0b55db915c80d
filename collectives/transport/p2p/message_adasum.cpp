// Adasum by messages: the two halves of a pair are sent at the same time, directly from and into their memory.
#include <algorithm>

#include "collectives/transport/p2p/message_exchange.hpp"

namespace farandole {

class message_exchange::adasum_messages : public adasum_transport {
public:
  explicit adasum_messages(message_exchange& exchange) : exchange_(exchange) {}

  error swap(adasum_phase phase, std::int32_t peer, std::span<const std::byte> give,
             std::span<std::byte> take, std::size_t) override {
    constexpr message_phase phases[] = {message_phase::scatter, message_phase::exchange,
                                        message_phase::gather};
    return exchange_.swap(phases[static_cast<std::size_t>(phase)], swaps_++, peer, give, take);
  }

private:
  message_exchange& exchange_;
  std::size_t swaps_ = 0;
};

error message_exchange::adaptive_sum() {
  if (input_.bytes() == 0)
    return barrier();
  adasum_messages messages(*this);
  return adasum(run_.bundle, run_.rank, run_.members, run_.staging.adasum).run(messages);
}

error message_exchange::carry(const adasum_exchange& value) {
  adasum_messages messages(*this);
  return value(messages);
}

error message_exchange::swap(message_phase phase, std::size_t number, std::int32_t peer,
                             std::span<const std::byte> give, std::span<std::byte> take) {
  run_.enter(phase, number);
  slot& in = run_.staging.of(0);
  const std::size_t limit = run_.staging.adasum_message_bytes;
  for (std::size_t from = 0; from < take.size(); from += limit)
    run_.transport.receive(peer, phase, take.subspan(from, std::min(limit, take.size() - from)), in.receives);
  for (std::size_t from = 0; from < give.size(); from += limit)
    run_.transport.send(peer, phase, give.subspan(from, std::min(limit, give.size() - from)), in.sends);
  if (error problem = run_.transport.wait(in.receives, run_.deadline))
    return problem;
  return run_.transport.wait(in.sends, run_.deadline);
}

} // namespace farandole
