// The part of the rendezvous that talks to the launcher: by messages in the same process, or by a link if the
// launcher is another process.
#include "actors/interfaces/slots.hpp"
#include "actors/rendezvous/rendezvous.hpp"

#include <utility>

namespace farandole {

void rendezvous_state::watched_by(const watch_generations& event) {
  watcher_ = caf::actor_cast<caf::actor>(event.process);
}

void rendezvous_state::fates_watched_by(const watch_fates& event) {
  fate_watcher_ = caf::actor_cast<caf::actor>(event.process);
}

void rendezvous_state::take_slots(link_id link, const slot_report& decoded) {
  if (decoded.wire_version != wire_version)
    return refuse(link, {"wire version " + std::to_string(decoded.wire_version) +
                         " does not match this rendezvous' " + std::to_string(wire_version) +
                         ": start the launcher and the rendezvous with the same Farandole"});
  if (decoded.epoch > members_.epoch())
    return step_down(link, decoded.epoch);
  if (!options_.apart)
    return refuse(link, {"this rendezvous has a launcher of its own"});
  if (launcher_ != 0 && launcher_ != decoded.job)
    return refuse(link, {"this rendezvous serves the job of another launcher; start one for this job" +
                         std::string(options_.journal ? ", with a journal of its own" : "")});
  const bool is_new = std::exchange(launcher_link_, link) != link;
  launcher_ = decoded.job;
  keep_failed(decoded.failed);
  for (const auto& slot : decoded.slots)
    members_.expect(slot.number);
  remember();
  for (const auto& slot : decoded.slots) {
    if (slot.retired)
      carry_out(members_.retire(slot.number));
    if (slot.ended)
      carry_out(members_.exit(slot.number, slot.manner));
  }
  if (decoded.complete)
    complete();
  if (is_new)
    tell_all_to_launcher();
  for (const auto& [from, early] : std::exchange(early_, {}))
    if (members_.knows(early.slot))
      carry_out(members_.join(from, early));
    else if (early_.emplace(from, early); is_new)
      await_report_of(from);
}

// The rendezvous itself does not use the failed hosts. It records them for a launcher that is restarted with the same
// journal.
void rendezvous_state::keep_failed(const std::vector<failed_host>& hosts) {
  if (!options_.journal)
    return;
  if (const auto problem = options_.journal->remember(hosts); problem && options_.log)
    options_.log->warning(problem.text);
}

void rendezvous_state::tell_launcher() {
  const auto generation = members_.generation();
  if (watcher_)
    caf::anon_send(watcher_, generation_formed{generation, members_.slots()});
  if (launcher_link_ != 0)
    send(launcher_link_,
         encode(address{generation, 0, -1}, formed{generation, members_.epoch(), members_.slots()}));
}

// Sends the current state to a launcher that has just connected, for the first time or again.
void rendezvous_state::tell_all_to_launcher() {
  if (members_.running())
    tell_launcher();
  for (const auto& record : members_.image().slot_images)
    if (record.retired && !record.ended)
      tell_of_leaving(record.slot);
}

// The slot is retired at once, without waiting for the watcher, so that this takes effect before the member's
// farewell.
void rendezvous_state::take_leaving(link_id link) {
  const auto slot = members_.slot_of(link);
  if (!options_.members.elastic || !slot)
    return;
  carry_out(members_.retire(*slot));
  if (watcher_)
    caf::anon_send(watcher_, slot_leaving{*slot});
  tell_of_leaving(*slot);
}

void rendezvous_state::tell_of_leaving(std::int32_t slot) {
  const auto generation = members_.generation();
  if (launcher_link_ != 0)
    send(launcher_link_, encode(address{generation, 0, -1}, leaving{generation, slot}));
}

bool rendezvous_state::accept_asker(link_id link, std::uint32_t version) {
  if (version != wire_version) {
    refuse(link, {"wire version " + std::to_string(version) + " does not match this job's " +
                  std::to_string(wire_version) + ": use the farandole that started it"});
    return false;
  }
  askers_.insert(link);
  return true;
}

void rendezvous_state::take_drain(link_id link, const drain& asked) {
  if (!accept_asker(link, asked.wire_version))
    return;
  if (watcher_)
    return caf::anon_send(watcher_, drain_asked{link, asked});
  if (launcher_link_ != 0) {
    auto handed_on = asked;
    handed_on.caller = link;
    return send(launcher_link_, encode(address{}, handed_on));
  }
  answer({link,
          {options_.apart ? "the job's launcher is not connected to its rendezvous: try again when it is"
                          : "this job is not elastic: its members cannot leave while it runs",
           {},
           false}});
}

// A launcher may still answer a request that it received from an earlier rendezvous; that answer is dropped.
void rendezvous_state::answer(const drain_answered& value) {
  if (askers_.contains(value.link))
    send(value.link, encode(address{}, value.value));
}

void rendezvous_state::take_answer(link_id link, draining decoded) {
  if (link != launcher_link_)
    return refuse(link, {"only the launcher answers for its job"});
  const auto asker = std::exchange(decoded.caller, 0);
  answer({asker, std::move(decoded)});
}

void rendezvous_state::take_records_request(link_id link, const write_records& request) {
  if (!accept_asker(link, request.wire_version))
    return;
  if (record_watcher_)
    return caf::anon_send(record_watcher_, records_wanted{link, request});
  if (launcher_link_ != 0) {
    auto handed_on = request;
    handed_on.caller = link;
    return send(launcher_link_, encode(handed_on));
  }
  answer(records_answered{link,
                          {options_.apart
                               ? "the job's launcher is not connected to its rendezvous: try again when it is"
                               : "this job has no launcher that holds the records of its workers",
                           0,
                           {},
                           0}});
}

void rendezvous_state::answer(const records_answered& value) {
  if (askers_.contains(value.link))
    send(value.link, encode(value.value));
}

void rendezvous_state::take_records_answer(link_id link, records_written decoded) {
  if (link != launcher_link_)
    return refuse(link, {"only the launcher answers for its job"});
  const auto asker = std::exchange(decoded.caller, 0);
  answer(records_answered{asker, std::move(decoded)});
}

} // namespace farandole
