// The part of the member that passes the notices of its stall watches to the rendezvous.
#include "actors/member/member.hpp"

namespace farandole {

// The rendezvous reports the stalls of all members. While it is away, each member reports what its own watches notice.
void member_state::notice_stalls(const stalls_noticed& event) {
  if (stage_ == stage::out)
    return;
  const auto rank = setup_.shared->rank;
  if (!rendezvous_away_)
    return self->send(router_,
                      rendezvous_message{encode(address{generation_, event.set_id, rank}, event.notice)});
  const auto step = own_stalls_.take({rank, event.set_id, event.notice.source}, event.notice, now(self));
  if (!step.report)
    return;
  if (setup_.log)
    setup_.log->warning(step.report->text);
  setup_.stalls->push(*step.report);
}

} // namespace farandole
