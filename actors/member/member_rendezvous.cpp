// The part of the member that handles the loss of the link to the rendezvous, and the return of the rendezvous.
#include <utility>

#include "actors/member/member.hpp"
#include "elastic/missing_reports.hpp"

namespace farandole {

void member_state::lost_rendezvous(const rendezvous_gone& event) {
  if (stage_ != stage::joining && stage_ != stage::in)
    return;
  if (!std::exchange(rendezvous_away_, true))
    own_stalls_ = stall_reports(stall_rules::of(setup_.settings));
  const auto location = setup_.rendezvous_ip + ":" + std::to_string(setup_.rendezvous_port);
  setup_.deadline->resume(now(self)); // without a rendezvous it is unknown whether the others train
  if (event.opened || setup_.own_hello.epoch > 0)
    calls_.met();
  if (elastic() && !calls_.in_vain(event.untrusted)) {
    if (event.untrusted && setup_.log)
      setup_.log->warning("another process answers at " + location + ", the address of the rendezvous (" +
                          event.reason +
                          "); this answer is ignored, and the member keeps looking for the rendezvous");
    return look_for_rendezvous(location, event.reason);
  }
  if (stage_ == stage::joining)
    return fail_start({error_kind::unknown, "the rendezvous at " + location +
                                                " could not be reached or went away" +
                                                (event.reason.empty() ? "" : ": " + event.reason)});
  if (setup_.log)
    setup_.log->warning("the link to the rendezvous at " + location + " ended (" + event.reason +
                        "); training goes on, but membership cannot change");
}

// Members need the rendezvous only for changes of membership. A process that is joining, or that has lost a member,
// must wait for it, because only the rendezvous forms generations.
void member_state::look_for_rendezvous(const std::string& location, const std::string& reason) {
  const bool was_searching = calls_.searching();
  const double uniform = (setup_.own_hello.slot % 16) / 16.0;
  const auto wait = calls_.next(now(self), uniform);
  const auto patience = setup_.settings.cited(setting::rendezvous_timeout);
  if (wait) {
    if (!was_searching && setup_.log)
      setup_.log->warning(
          "the rendezvous at " + location + " cannot be reached" +
          (reason.empty() ? "" : " (" + reason + ")") +
          (stage_ == stage::in
               ? "; training goes on, but the job's members cannot change until it is back"
               : "; waiting for it, because only the rendezvous decides which workers are in the job") +
          " (for up to " + patience + ")");
    self->delayed_send(self, *wait, call_atom::value);
    return;
  }
  if (stage_ == stage::joining)
    return fail_start({error_kind::unknown, "the rendezvous at " + location +
                                                " could not be reached within " + patience + ": " + reason});
  if (setup_.log)
    setup_.log->warning("the rendezvous at " + location + " has not come back within " + patience +
                        "; training goes on, but the job's members cannot change any more");
}

void member_state::call_rendezvous() {
  if (stage_ != stage::joining && stage_ != stage::in)
    return;
  const auto& me = setup_.own_hello;
  if (!tree_) {
    setup_.deadline->pause(now(self));
    return self->send(router_, rendezvous_call{encode(address{}, me)});
  }
  const auto rank = setup_.shared->rank;
  const returning returning{wire_version, generation_, rank, me.slot, me.host, me.process, me.epoch};
  self->send(router_, rendezvous_call{encode(address{generation_, 0, rank}, returning)});
}

void member_state::resumed_by(const resumed& event) {
  if (event.generation != generation_ || stage_ == stage::out || !obeys(event.epoch))
    return;
  rendezvous_away_ = false;
  if (setup_.log)
    setup_.log->warning("the rendezvous is back (epoch " + epoch_text(event.epoch) +
                        "): the job's members can change again");
  if (event.changes > 0)
    warned({event.generation, event.changes, event.removals_only});
  // The report may have been lost with the link, and a joining member waits for the answer.
  if (stage_ == stage::joining && suspect_.rank >= 0)
    report(suspect_);
}

// A member that has joined can train without a rendezvous. A rendezvous that does not know this process is not the
// one that it waits for, so its refusal does not end the training.
void member_state::refused_by(const refused& refusal) {
  error reason{refusal.dismissed ? error_kind::dismissed : error_kind::precondition,
               "the rendezvous refused this process: " + refusal.reason};
  reason.consequence = refusal.culprit >= 0 && refusal.culprit != setup_.own_hello.slot;
  if (!tree_ || refusal.dismissed)
    return fail_start(reason);
  if (setup_.log && std::exchange(notified_.refusal, reason.text) != reason.text)
    setup_.log->warning(reason.text + "; training goes on without it");
}

// The list of missing members is of use only before the welcome.
void member_state::awaits(const awaited& missing) {
  if (stage_ != stage::joining || tree_)
    return;
  setup_.deadline->resume(now(self) - std::chrono::seconds(missing.waited_seconds));
  const auto text = text_of(missing, elastic());
  setup_.shared->missing.set(text);
  if (!missing.report || !setup_.log)
    return;
  setup_.log->warning("init() has waited " + std::to_string(missing.waited_seconds) + " s, of at most " +
                      setup_.settings.cited(join_timeout(setup_.settings)) + ": " + text);
}

bool member_state::obeys(std::uint64_t epoch) {
  if (epoch < setup_.own_hello.epoch) {
    if (setup_.log)
      setup_.log->warning("a rendezvous of epoch " + epoch_text(epoch) +
                          " has no say: this process has obeyed one of epoch " +
                          epoch_text(setup_.own_hello.epoch));
    self->send(router_, rendezvous_message{encode(address{}, superseded{setup_.own_hello.epoch})});
    return false;
  }
  setup_.own_hello.epoch = *setup_.obeyed = epoch;
  calls_.found();
  return true;
}

} // namespace farandole
