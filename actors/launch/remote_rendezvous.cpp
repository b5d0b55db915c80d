#include "actors/launch/remote_rendezvous.hpp"

#include <signal.h>

#include <utility>

#include "actors/event_loop/clock.hpp"
#include "actors/event_loop/link_messages.hpp"
#include "actors/interfaces/stalls.hpp"
#include "actors/launch/host_driver.hpp"
#include "messages/wire/membership.hpp"
#include "messages/wire/stalls.hpp"

namespace farandole {

remote_rendezvous_actor start_remote_rendezvous(caf::actor_system& system,
                                                const remote_rendezvous_spec& spec) {
  return system.spawn([spec](remote_rendezvous_actor::stateful_pointer<remote_rendezvous_state> self) {
    return self->state.begin(spec);
  });
}

remote_rendezvous_actor::behavior_type remote_rendezvous_state::begin(const remote_rendezvous_spec& spec) {
  spec_ = spec;
  calls_ = reconnect_backoff{spec.patience};
  call();
  return {
      [this](const slot_exited& event) {
        auto& slot = slots_[event.slot];
        slot.ended = true;
        slot.manner = event.manner;
        changed(event.slot);
      },
      [this](const slot_started& event) { changed(event.slot); },
      [this](const slot_retired& event) {
        slots_[event.slot].retired = true;
        changed(event.slot);
      },
      [this](const no_more_starts&) {
        complete_ = true;
        if (link_)
          report({});
      },
      [this](const hosts_failed& event) {
        if (std::exchange(failed_hosts_, event.hosts) != event.hosts && link_)
          report({});
      },
      [this](const drain_answered& value) { answer(value); },
      [this](const watch_records& event) { record_watcher_ = event.process; },
      [this](const records_answered& value) { answer(value); },
      [](const watch_fates&) {}, // a remote rendezvous sends no fates: the first failure counts as the cause
      [](const watch_stalls&) {},
      [this](const watch_generations& event) {
        watcher_ = event.process;
        end_job();
      },
      [this](call_atom) { call(); },
      [this](close_atom) { close(); },
      [this](const link_opened& event) { opened(event); },
      [this](const link_received& event) { received(event); },
      [this](const link_closed& event) { closed(event); },
  };
}

void remote_rendezvous_state::call() {
  if (closing_ || failed_ || link_)
    return;
  auto links = spec_.links;
  if (++number_ > 1)
    links.log = nullptr; // only the first failed dial is logged
  dial(self_->system(), spec_.ip, spec_.port, caf::actor_cast<caf::actor>(self_), number_, links);
}

void remote_rendezvous_state::changed(std::int32_t slot) {
  auto& entry = slots_[slot];
  entry.number = slot;
  if (link_)
    report({entry});
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

void remote_rendezvous_state::opened(const link_opened& event) {
  link_ = event.handle;
  if (closing_)
    return close();
  if (calls_.searching() && spec_.log)
    spec_.log->warning("the rendezvous at " + location() + " is back");
  met_ = true;
  calls_.found();
  std::vector<reported_slot> all;
  for (const auto& [number, slot] : slots_)
    all.push_back(slot);
  report(std::move(all));
}

void remote_rendezvous_state::received(const link_received& event) {
  if (event.message.kind() == wire::Envelope::Body::FORMED) {
    if (const auto news = decode_formed(event.message))
      hear_of(*news);
  } else if (event.message.kind() == wire::Envelope::Body::LEAVING) {
    if (const auto news = decode_leaving(event.message); news && news->slot >= 0 && watcher_)
      self_->send(watcher_, slot_leaving{news->slot});
  } else if (event.message.kind() == wire::Envelope::Body::DRAIN) {
    if (const auto asked = decode_drain(event.message))
      pass_on(*asked);
  } else if (event.message.kind() == wire::Envelope::Body::WRITE_RECORDS) {
    if (const auto request = decode_write_records(event.message))
      pass_on(*request);
  } else if (event.message.kind() == wire::Envelope::Body::STALL_REPORT) {
    if (const auto report = decode_stall_report(event.message); report && spec_.log)
      spec_.log->warning(report->text);
  } else if (event.message.kind() == wire::Envelope::Body::REFUSED) {
    if (const auto reason = decode_refused(event.message))
      fail("the rendezvous at " + location() + " refused this launcher: " + reason->reason);
  }
}

void remote_rendezvous_state::hear_of(const formed& formed) {
  if (formed.epoch < epoch_) {
    caf::anon_send(link_, encode(address{}, superseded{epoch_}));
    return;
  }
  epoch_ = formed.epoch;
  if (watcher_)
    self_->send(watcher_, generation_formed{formed.generation, formed.slots});
}

void remote_rendezvous_state::pass_on(const drain& request) {
  if (watcher_)
    self_->send(watcher_, drain_asked{request.caller, request});
  else
    answer({request.caller, {"this job is not elastic: its members cannot leave while it runs", {}, false}});
}

// If the link to the rendezvous is closed, the answer is dropped; the requester of the drain times out.
void remote_rendezvous_state::answer(const drain_answered& value) {
  auto told = value.value;
  told.caller = value.link;
  if (link_)
    caf::anon_send(link_, encode(address{}, told));
}

void remote_rendezvous_state::pass_on(const write_records& request) {
  if (record_watcher_)
    self_->send(record_watcher_, records_wanted{request.caller, request});
}

void remote_rendezvous_state::answer(const records_answered& value) {
  auto told = value.value;
  told.caller = value.link;
  if (link_)
    caf::anon_send(link_, encode(told));
}

void remote_rendezvous_state::closed(const link_closed& event) {
  link_ = nullptr;
  if (closing_)
    return self_->quit();
  if (failed_)
    return;
  const auto because = event.reason.empty() ? std::string() : ": " + event.reason;
  // Before the first contact a failure is final: the address or the secret is probably wrong.
  if (!met_)
    return fail("the rendezvous at " + location() + " cannot be reached" + because);
  if (event.untrusted && spec_.log)
    spec_.log->warning("another process answers at " + location() + ", the address of the rendezvous" +
                       because +
                       "; this answer is ignored, and the launcher keeps looking for the rendezvous");
  const bool told = calls_.searching();
  const auto wait = calls_.next(now(self_), 0);
  if (!wait)
    return fail("the rendezvous at " + location() + " has not come back within " + spec_.patience_setting +
                because);
  if (!told && spec_.log)
    spec_.log->warning(
        "the rendezvous at " + location() + " went away" + because +
        "; the job goes on, but its members cannot change until it is back (looked for for up to " +
        spec_.patience_setting + ")");
  self_->delayed_send(self_, *wait, call_atom::value);
}

void remote_rendezvous_state::fail(const std::string& reason) {
  if (std::exchange(failed_, true))
    return;
  if (spec_.log)
    spec_.log->error(reason);
  end_job();
}

// Without a rendezvous the workers cannot form a generation. The job ends as it does when the launcher receives
// SIGTERM.
void remote_rendezvous_state::end_job() {
  if (failed_ && watcher_)
    caf::anon_send(caf::actor_cast<caf::actor>(watcher_), interrupt_atom::value, SIGTERM);
}

} // namespace farandole
