// What a member does when the rendezvous goes away, and when it is back.
#include <utility>

#include "actors/member.hpp"
#include "elastic/missing_reports.hpp"

namespace farandole {

void member_state::lost_rendezvous(const rendezvous_gone& what) {
  if (stage_ != stage::joining && stage_ != stage::in)
    return;
  const auto where = setup_.rendezvous_ip + ":" + std::to_string(setup_.rendezvous_port);
  setup_.deadline->resume(now(self)); // nobody says any more what the others do
  if (what.opened || setup_.introduce.epoch > 0)
    calls_.met();
  if (elastic() && !calls_.in_vain(what.untrusted)) {
    if (what.untrusted && setup_.log)
      setup_.log->warning("another process answers at " + where + ", the address of the rendezvous (" +
                          what.reason + "); not heeded: this member goes on looking for the rendezvous");
    return look_for_rendezvous(where, what.reason);
  }
  if (stage_ == stage::joining)
    return fail_start({error_kind::unknown, "the rendezvous at " + where +
                                                " could not be reached or went away" +
                                                (what.reason.empty() ? "" : ": " + what.reason)});
  if (setup_.log)
    setup_.log->warning("the link to the rendezvous at " + where + " ended (" + what.reason +
                        "); training goes on, but membership cannot change");
}

// Members need it for changes of membership alone. Who is joining, or has lost somebody, waits for it: nobody
// else makes generations.
void member_state::look_for_rendezvous(const std::string& where, const std::string& reason) {
  const bool was_searching = calls_.searching();
  const double uniform = (setup_.introduce.slot % 16) / 16.0;
  const auto wait = calls_.next(now(self), uniform);
  const auto patience = setup_.settings.cited(setting::rendezvous_timeout);
  if (wait) {
    if (!was_searching && setup_.log)
      setup_.log->warning(
          "the rendezvous at " + where + " cannot be reached" + (reason.empty() ? "" : " (" + reason + ")") +
          (stage_ == stage::in ? "; training goes on, but the job's members cannot change until it is back"
                               : "; waiting for it, for it alone says who is in the job") +
          " (for up to " + patience + ")");
    self->delayed_send(self, *wait, call_atom::value);
    return;
  }
  if (stage_ == stage::joining)
    return fail_start({error_kind::unknown, "the rendezvous at " + where + " could not be reached within " +
                                                patience + ": " + reason});
  if (setup_.log)
    setup_.log->warning("the rendezvous at " + where + " has not come back within " + patience +
                        "; training goes on, but the job's members cannot change any more");
}

void member_state::call_rendezvous() {
  if (stage_ != stage::joining && stage_ != stage::in)
    return;
  const auto& me = setup_.introduce;
  if (!tree_) {
    setup_.deadline->pause(now(self));
    return self->send(post_, rendezvous_call{encode(address{}, me)});
  }
  const auto rank = setup_.shared->rank;
  const returning who{wire_version, generation_, rank, me.slot, me.host, me.process, me.epoch};
  self->send(post_, rendezvous_call{encode(address{generation_, 0, rank}, who)});
}

void member_state::resumed_by(const resumed& what) {
  if (what.generation != generation_ || stage_ == stage::out || !obeys(what.epoch))
    return;
  if (setup_.log)
    setup_.log->warning("the rendezvous is back (epoch " + epoch_text(what.epoch) +
                        "): the job's members can change again");
  if (what.changes > 0)
    warned({what.generation, what.changes, what.removals_only});
  // The report may have been lost with the link; who is joining waits for the answer.
  if (stage_ == stage::joining && suspect_.rank >= 0)
    report(suspect_);
}

// Who is in needs no rendezvous to train on; one that does not know this process is not the one that it waits
// for.
void member_state::refused_by(const refused& what) {
  error why{what.dismissed ? error_kind::dismissed : error_kind::precondition,
            "the rendezvous refused this process: " + what.reason};
  why.consequence = what.culprit >= 0 && what.culprit != setup_.introduce.slot;
  if (!tree_ || what.dismissed)
    return fail_start(why);
  if (setup_.log && std::exchange(told_.refusal, why.text) != why.text)
    setup_.log->warning(why.text + "; training goes on without it");
}

// Before this member is welcomed: later on it knows who is in.
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
  if (epoch < setup_.introduce.epoch) {
    if (setup_.log)
      setup_.log->warning("a rendezvous of epoch " + epoch_text(epoch) +
                          " has no say: this process has obeyed one of epoch " +
                          epoch_text(setup_.introduce.epoch));
    self->send(post_, outbound_to_rendezvous{encode(address{}, superseded{setup_.introduce.epoch})});
    return false;
  }
  setup_.introduce.epoch = *setup_.obeyed = epoch;
  calls_.found();
  return true;
}

} // namespace farandole
