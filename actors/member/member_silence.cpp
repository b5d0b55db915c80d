// The part of the member that reacts to processes without progress.
#include <utility>

#include "actors/member/heartbeats.hpp"
#include "actors/member/member.hpp"

namespace farandole {

void member_state::start_heartbeats() {
  if (!setup_.heartbeats || setup_.shared->members.size() < 2)
    return;
  stuck_ = stuck_rules::of(setup_.settings);
  heartbeats_ =
      self->spawn(heartbeats, heartbeats_setup{setup_.shared, stuck_, caf::actor_cast<caf::actor>(router_),
                                               caf::actor_cast<caf::actor>(self)});
}

void member_state::hear_of_silence(const processes_silent& report) {
  // A silent process cannot close its link, so this member does not wait for that. If the process has missed
  // messages, it learns of the end of the generation from the rendezvous.
  if (stage_ == stage::leaving) {
    for (const auto& rank : report.ranks)
      still_linked_.erase(rank.rank);
    return leave_if_done();
  }
  if (stage_ != stage::in)
    return;
  if (client_)
    self->send(client_, report);
  if (sets_)
    self->send(sets_, report);
  if (const auto gone = stuck_.lost(report.ranks); gone && suspect_.rank != gone->rank)
    suspect({generation_, gone->rank, stuck_.loss_complaint(*gone), true});
}

// The silent member is reported to the rendezvous. The operations of this member fail with a timeout.
void member_state::held_up(const operations_held_up& event) {
  if (stage_ != stage::in)
    return;
  const auto member = setup_.shared->name_of(event.by.rank);
  const auto reason = stuck_.timeout_complaint(member, event.by);
  if (setup_.log)
    setup_.log->error(reason);
  report({generation_, event.by.rank, stuck_rules::complaint(event.by)});
  end_generation({error_kind::timed_out, reason});
}

// Closes links without waiting for their peers, so that no lost or silent neighbour delays the end of the generation.
// In order: the links to silent members; otherwise: the links to all neighbours.
void member_state::give_up_neighbours(bool in_order) {
  const auto& shared = *setup_.shared;
  if (!shared.tree)
    return;
  neighbours_given_up gone;
  if (in_order) {
    for (const auto& silent_member : shared.silent.get())
      gone.ranks.push_back(silent_member.rank);
  } else {
    const auto below = shared.tree->children(shared.rank);
    gone.ranks.assign(below.begin(), below.end());
    gone.ranks.push_back(shared.tree->parent(shared.rank));
  }
  self->send(router_, std::move(gone));
}

} // namespace farandole
