// Adasum by messages: the two halves of a pair cross at the same time, straight from and to their memory.
#include <algorithm>

#include "collectives/paths/exchange/message_exchange.hpp"

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
  return adasum(bundle_, rank_, members_, staging_.adasum).run(messages);
}

error message_exchange::carry(const adasum_exchange& what) {
  adasum_messages messages(*this);
  return what(messages);
}

error message_exchange::swap(message_phase phase, std::size_t number, std::int32_t peer,
                             std::span<const std::byte> give, std::span<std::byte> take) {
  enter(phase, number);
  slot& in = staging_.of(0);
  const std::size_t most = staging_.adasum_message_bytes;
  for (std::size_t from = 0; from < take.size(); from += most)
    worker_.receive(peer, phase, take.subspan(from, std::min(most, take.size() - from)), in.receives);
  for (std::size_t from = 0; from < give.size(); from += most)
    worker_.send(peer, phase, give.subspan(from, std::min(most, give.size() - from)), in.sends);
  if (error problem = worker_.wait(in.receives, until_))
    return problem;
  return worker_.wait(in.sends, until_);
}

} // namespace farandole
