// What a member does when other members' processes make no progress.
#include <utility>

#include "actors/member/heartbeats.hpp"
#include "actors/member/member.hpp"

namespace farandole {

void member_state::start_heartbeats() {
  if (!setup_.heartbeats || setup_.shared->members.size() < 2)
    return;
  stuck_ = stuck_rules::of(setup_.settings);
  heartbeats_ =
      self->spawn(heartbeats, heartbeats_setup{setup_.shared, stuck_, caf::actor_cast<caf::actor>(post_),
                                               caf::actor_cast<caf::actor>(self)});
}

void member_state::hear_of_silence(const processes_silent& report) {
  // Whoever is silent cannot close its link, and what it has not been told it will learn from the rendezvous.
  if (stage_ == stage::leaving) {
    for (const auto& rank : report.ranks)
      still_linked_.erase(rank.rank);
    return leave_if_done();
  }
  if (stage_ != stage::in)
    return;
  if (worker_)
    self->send(worker_, report);
  if (sets_)
    self->send(sets_, report);
  if (const auto gone = stuck_.lost(report.ranks); gone && suspect_.rank != gone->rank)
    suspect({generation_, gone->rank, stuck_.loss_complaint(*gone), true});
}

// The rendezvous is told who is at fault; here operations fail for the reason that they have waited too long.
void member_state::held_up(const operations_held_up& event) {
  if (stage_ != stage::in)
    return;
  const auto member = setup_.shared->name_of(event.by.rank);
  const auto reason = stuck_.timeout_complaint(member, event.by);
  if (setup_.log)
    setup_.log->error(reason);
  report({generation_, event.by.rank, stuck_rules::complaint(event.by)});
  over({error_kind::timed_out, reason});
}

// Nobody who is lost or silent holds this member in its generation.
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
  self->send(post_, std::move(gone));
}

} // namespace farandole
