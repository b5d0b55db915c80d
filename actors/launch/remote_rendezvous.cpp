#include "actors/launch/remote_rendezvous.hpp"

#include <signal.h>

#include <utility>

#include "actors/interfaces/link.hpp"
#include "actors/kit/clock.hpp"
#include "actors/launch/host_driver.hpp"
#include "messages/membership.hpp"

namespace farandole {

remote_rendezvous_actor start_remote_rendezvous(caf::actor_system& system,
                                                const remote_rendezvous_spec& spec) {
  return system.spawn([spec](remote_rendezvous_actor::stateful_pointer<remote_rendezvous_state> self) {
    return self->state.begin(spec);
  });
}

remote_rendezvous_actor::behavior_type remote_rendezvous_state::begin(const remote_rendezvous_spec& spec) {
  spec_ = spec;
  calls_ = redial{spec.patience};
  call();
  return {
      [this](const slot_exited& what) {
        auto& slot = slots_[what.slot];
        slot.ended = true;
        slot.how = what.how;
        changed(what.slot);
      },
      [this](const slot_started& what) { changed(what.slot); },
      [this](const slot_retired& what) {
        slots_[what.slot].retired = true;
        changed(what.slot);
      },
      [this](const nobody_comes&) {
        complete_ = true;
        if (link_)
          report({});
      },
      [this](const hosts_failed& what) {
        if (std::exchange(failed_hosts_, what.hosts) != what.hosts && link_)
          report({});
      },
      [this](const drain_answered& what) { answer(what); },
      [](const watch_fates&) {}, // one that runs apart does not tell: the first failure counts as the cause
      [this](const watch_generations& what) {
        watcher_ = what.who;
        end_job();
      },
      [this](call_atom) { call(); },
      [this](close_atom) { close(); },
      [this](const link_opened& what) { opened(what); },
      [this](const link_received& what) { received(what); },
      [this](const link_closed& what) { closed(what); },
  };
}

void remote_rendezvous_state::call() {
  if (closing_ || failed_ || link_)
    return;
  auto links = spec_.links;
  if (++number_ > 1)
    links.log = nullptr; // it is said once
  dial(self_->system(), spec_.ip, spec_.port, caf::actor_cast<caf::actor>(self_), number_, links);
}

void remote_rendezvous_state::changed(std::int32_t slot) {
  auto& one = slots_[slot];
  one.number = slot;
  if (link_)
    report({one});
}

void remote_rendezvous_state::report(std::vector<reported_slot> slots) {
  caf::anon_send(link_, encode(address{}, slot_report{wire_version, spec_.job, epoch_, std::move(slots),
                                                      complete_, failed_hosts_}));
}

void remote_rendezvous_state::close() {
  closing_ = true;
  if (link_)
    caf::anon_send(link_, close_atom::value);
  else
    self_->quit();
}

void remote_rendezvous_state::opened(const link_opened& what) {
  link_ = what.handle;
  if (closing_)
    return close();
  if (calls_.searching() && spec_.log)
    spec_.log->warning("the rendezvous at " + where() + " is back");
  met_ = true;
  calls_.found();
  std::vector<reported_slot> all;
  for (const auto& [number, slot] : slots_)
    all.push_back(slot);
  report(std::move(all));
}

void remote_rendezvous_state::received(const link_received& what) {
  if (what.message.kind() == wire::Envelope::Body::FORMED) {
    if (const auto news = decode_formed(what.message))
      hear_of(*news);
  } else if (what.message.kind() == wire::Envelope::Body::LEAVING) {
    if (const auto news = decode_leaving(what.message); news && news->slot >= 0 && watcher_)
      self_->send(watcher_, slot_leaving{news->slot});
  } else if (what.message.kind() == wire::Envelope::Body::DRAIN) {
    if (const auto asked = decode_drain(what.message))
      pass_on(*asked);
  } else if (what.message.kind() == wire::Envelope::Body::REFUSED) {
    if (const auto why = decode_refused(what.message))
      fail("the rendezvous at " + where() + " refused this launcher: " + why->reason);
  }
}

void remote_rendezvous_state::hear_of(const formed& what) {
  if (what.epoch < epoch_) {
    caf::anon_send(link_, encode(address{}, superseded{epoch_}));
    return;
  }
  epoch_ = what.epoch;
  if (watcher_)
    self_->send(watcher_, generation_formed{what.generation, what.slots});
}

void remote_rendezvous_state::pass_on(const drain& what) {
  if (watcher_)
    self_->send(watcher_, drain_asked{what.caller, what});
  else
    answer({what.caller, {"this job is not elastic: its members cannot leave while it runs", {}, false}});
}

// Whoever asked a rendezvous that is away now will hear nothing, and says so after its own deadline.
void remote_rendezvous_state::answer(const drain_answered& what) {
  auto told = what.what;
  told.caller = what.link;
  if (link_)
    caf::anon_send(link_, encode(address{}, told));
}

void remote_rendezvous_state::closed(const link_closed& what) {
  link_ = nullptr;
  if (closing_)
    return self_->quit();
  if (failed_)
    return;
  const auto because = what.reason.empty() ? std::string() : ": " + what.reason;
  // One that never was there, or has another secret, will hardly come.
  if (!met_)
    return fail("the rendezvous at " + where() + " cannot be reached" + because);
  if (what.untrusted && spec_.log)
    spec_.log->warning("another process answers at " + where() + ", the address of the rendezvous" + because +
                       "; not heeded: this launcher goes on looking for the rendezvous");
  const bool told = calls_.searching();
  const auto wait = calls_.next(now(self_), 0);
  if (!wait)
    return fail("the rendezvous at " + where() + " has not come back within " + spec_.patience_setting +
                because);
  if (!told && spec_.log)
    spec_.log->warning(
        "the rendezvous at " + where() + " went away" + because +
        "; the job goes on, but its members cannot change until it is back (looked for for up to " +
        spec_.patience_setting + ")");
  self_->delayed_send(self_, *wait, call_atom::value);
}

void remote_rendezvous_state::fail(const std::string& why) {
  if (std::exchange(failed_, true))
    return;
  if (spec_.log)
    spec_.log->error(why);
  end_job();
}

// The workers cannot become a job: it ends as if somebody had ended it.
void remote_rendezvous_state::end_job() {
  if (failed_ && watcher_)
    caf::anon_send(caf::actor_cast<caf::actor>(watcher_), interrupt_atom::value, SIGTERM);
}

} // namespace farandole
