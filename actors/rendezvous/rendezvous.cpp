#include "actors/rendezvous/rendezvous.hpp"

#include <algorithm>
#include <utility>

#include "actors/event_loop/clock.hpp"
#include "actors/event_loop/link_messages.hpp"
#include "actors/interfaces/slots.hpp"
#include "actors/rendezvous/rendezvous_journal.hpp"

namespace farandole {

namespace {

// Time to wait, after a link has ended, for the exit report that explains it. The other members must learn of a loss
// within a second, so it is much shorter than that.
constexpr std::chrono::milliseconds explanation{250};
/// Time to wait for the launcher's report of a slot after the hello of its process.
constexpr std::chrono::seconds slot_report_delay{1};

} // namespace

void rendezvous_state::begin(rendezvous_options options, membership members) {
  members_ = std::move(members);
  options_ = std::move(options);
  stalls_ = stall_reports(stall_rules::of(options_.settings));
  if (options_.apart && options_.journal && options_.journal->found())
    launcher_ = options_.journal->found()->launcher;
  running_ = members_.running();
  gathering_since_ = now(self);
  if (members_.generation() > 0)
    limit_wait();
}

void rendezvous_state::received(const link_received& event) {
  auto route = event.link;
  auto misread = [&](const error& problem) { refuse(route, {problem.text}); };
  switch (event.message.kind()) {
  case wire::Envelope::Body::HELLO:
    if (auto decoded = decode_hello(event.message))
      join(route, *decoded);
    else
      misread(decoded.error());
    break;
  case wire::Envelope::Body::RETURNING:
    if (auto decoded = decode_returning(event.message))
      carry_out(members_.come_back(route, *decoded));
    else
      misread(decoded.error());
    break;
  case wire::Envelope::Body::SLOTS:
    if (auto decoded = decode_slot_report(event.message))
      take_slots(route, *decoded);
    else
      misread(decoded.error());
    break;
  case wire::Envelope::Body::SUPERSEDED:
    if (auto decoded = decode_superseded(event.message); !decoded)
      misread(decoded.error());
    else if (decoded->epoch > members_.epoch())
      step_down(route, decoded->epoch);
    break;
  case wire::Envelope::Body::FAREWELL:
    if (auto decoded = decode_farewell(event.message))
      take_farewell(route, *decoded);
    else
      misread(decoded.error());
    break;
  case wire::Envelope::Body::LOST:
    if (auto decoded = decode_lost(event.message); !decoded)
      misread(decoded.error());
    else if (decoded->rank == event.message.source())
      take_report({route, *decoded});
    else {
      delayed_reports_.insert_or_assign(route, *decoded);
      self->delayed_send(self, explanation, member_reported{route, *decoded});
    }
    break;
  case wire::Envelope::Body::LEAVING:
    if (auto decoded = decode_leaving(event.message))
      take_leaving(route);
    else
      misread(decoded.error());
    break;
  case wire::Envelope::Body::STALLS:
    take_stalls(route, event.message);
    break;
  case wire::Envelope::Body::DRAIN:
    if (auto decoded = decode_drain(event.message))
      take_drain(route, *decoded);
    else
      misread(decoded.error());
    break;
  case wire::Envelope::Body::DRAINING:
    if (auto decoded = decode_draining(event.message))
      take_answer(route, std::move(*decoded));
    else
      misread(decoded.error());
    break;
  case wire::Envelope::Body::WRITE_RECORDS:
    if (auto decoded = decode_write_records(event.message))
      take_records_request(route, *decoded);
    else
      misread(decoded.error());
    break;
  case wire::Envelope::Body::RECORDS_WRITTEN:
    if (auto decoded = decode_records_written(event.message))
      take_records_answer(route, std::move(*decoded));
    else
      misread(decoded.error());
    break;
  default:
    refuse(route, {"a message of this kind is not for the rendezvous"});
  }
}

// A hello of a slot that the launcher has not reported yet is held back. The launcher may have started the process
// while it had no link, and the hello of a fast process may overtake the launcher's report, which comes on another
// link.
void rendezvous_state::join(link_id link, const hello& decoded) {
  if (!options_.apart || members_.knows(decoded.slot))
    return carry_out(members_.join(link, decoded));
  early_[link] = decoded;
  await_report_of(link);
}

void rendezvous_state::await_report_of(link_id link) {
  self->delayed_send(self, slot_report_delay, slot_unreported{link});
}

// The launcher has not reported the slot of an early hello in time. If the launcher has no link, the check is
// repeated after it has returned.
void rendezvous_state::take_unreported(link_id link) {
  if (launcher_link_ == 0)
    return;
  if (const auto early = early_.extract(link))
    carry_out(members_.join(link, early.mapped()));
}

// Write-ahead log: the journal records a decision before any member learns of it. Most messages change nothing that
// is recorded.
void rendezvous_state::remember() {
  const std::pair current{members_.revision(), launcher_};
  if (!options_.journal || (kept_ == current && !options_.journal->behind()))
    return;
  kept_ = current;
  auto image = members_.image();
  image.launcher = launcher_;
  if (const auto problem = options_.journal->remember(image); problem && options_.log)
    options_.log->warning(problem.text);
}

// The farewell names the member that left first. This is forwarded to the watcher of fates, which determines the
// cause of a failure.
void rendezvous_state::take_farewell(link_id link, const farewell& decoded) {
  const auto slot = members_.slot_of(link);
  const auto& slots = members_.slots();
  const auto rank = static_cast<std::size_t>(decoded.departed.rank);
  if (slot && decoded.generation == members_.generation() && decoded.departed.rank >= 0 &&
      rank < slots.size())
    tell_fate({*slot, slots[rank], false, decoded.departed.manner, decoded.interrupted});
  take_delayed_report(link);
  carry_out(members_.leave(link, decoded.generation));
}

void rendezvous_state::tell_fate(slot_fate fate) {
  if (fate_watcher_)
    caf::anon_send(fate_watcher_, std::move(fate));
}

void rendezvous_state::step_down(link_id link, std::uint64_t epoch) {
  if (closing_)
    return;
  const auto found = links_.find(link);
  if (options_.log)
    options_.log->error("this rendezvous (epoch " + epoch_text(members_.epoch()) +
                        ") ends: the job's members obey another one, of epoch " + epoch_text(epoch) +
                        ", as " + (found == links_.end() ? "a process that is gone" : found->second.peer) +
                        " says; one job has one rendezvous, and one that is started again needs its journal");
  close();
  if (options_.stepped_down)
    options_.stepped_down();
}

// A member's report of its own loss is handled at once. Its report of another member is delayed, because the host
// driver may report the exit of that member's process, which is more precise.
void rendezvous_state::take_report(const member_reported& event) {
  delayed_reports_.erase(event.link);
  carry_out(members_.report(event.link, event.loss));
}

// Handles the delayed report of a member that ends itself, so that the reported member counts as lost first.
void rendezvous_state::take_delayed_report(link_id link) {
  if (const auto found = delayed_reports_.find(link); found != delayed_reports_.end())
    take_report({link, found->second});
}

void rendezvous_state::exited(const slot_exited& event) {
  const auto due = std::find_if(delayed_reports_.begin(), delayed_reports_.end(), [&](const auto& entry) {
    return members_.slot_of(entry.first) == event.slot;
  });
  if (due != delayed_reports_.end())
    take_delayed_report(due->first);
  carry_out(members_.exit(event.slot, event.manner));
}

void rendezvous_state::started(const slot_started& event) {
  members_.expect(event.slot, event.host);
  remember();
  follow(reports_.changed(members_.forming(), now(self)));
}

void rendezvous_state::retired(const slot_retired& event) {
  carry_out(members_.retire(event.slot));
}

void rendezvous_state::complete() {
  carry_out(members_.no_more_starts());
}

// There is at most one pending timer, even if generations end in quick succession. One timer for each generation
// would keep a pending message for each.
void rendezvous_state::limit_wait() {
  const auto longest = options_.settings.duration(setting::regroup_timeout);
  awaited_until_ = now(self) + longest;
  awaited_generation_ = members_.generation();
  if (!std::exchange(wait_timer_set_, true))
    self->delayed_send(self, longest, regroup_overdue{});
}

void rendezvous_state::overdue() {
  const auto rest = awaited_until_ - now(self);
  wait_timer_set_ = rest > std::chrono::nanoseconds{0};
  if (wait_timer_set_)
    self->delayed_send(self, rest, regroup_overdue{});
  else
    carry_out(members_.give_up_waiting(awaited_generation_));
}

void rendezvous_state::opened(const link_opened& event) {
  links_[event.link] = {event.handle, event.peer};
  if (closing_)
    caf::anon_send(event.handle, close_atom::value);
}

void rendezvous_state::closed(const link_closed& event) {
  forget_stalls(event.link);
  links_.erase(event.link);
  askers_.erase(event.link);
  early_.erase(event.link);
  if (launcher_link_ == event.link)
    launcher_link_ = 0;
  auto reason =
      "lost its connection to the rendezvous" + (event.reason.empty() ? "" : " (" + event.reason + ")");
  self->delayed_send(self, explanation, link_stayed_down{event.link, reason});
  if (closing_ && links_.empty())
    self->quit();
}

void rendezvous_state::stayed_down(const link_stayed_down& event) {
  carry_out(members_.disconnect(event.link, event.reason));
}

void rendezvous_state::close() {
  closing_ = true;
  for (const auto& listener : listeners_)
    caf::anon_send(listener, close_atom::value);
  for (auto& [id, link] : links_)
    caf::anon_send(link.handle, close_atom::value);
  if (links_.empty())
    self->quit();
}

void rendezvous_state::carry_out(const membership_decision& decision) {
  if (decision.superseded_by != 0)
    return step_down(decision.superseded_from, decision.superseded_by);
  remember();
  for (auto& consequence : decision.consequences)
    tell_fate({consequence.slot, consequence.culprit, true, std::nullopt, true});
  for (auto& refusal : decision.refusals)
    refuse(refusal.to, refusal.reason);
  if (!decision.admissions.empty())
    admit(decision);
  for (auto& notice : decision.loss_notices)
    send(notice.to, encode(address{notice.lost.generation, 0, -1}, notice.lost));
  for (auto& warning : decision.change_notices)
    send(warning.to, encode(address{warning.changed.generation, 0, -1}, warning.changed));
  for (auto& resumption : decision.resumptions)
    send(resumption.to, encode(address{resumption.event.generation, 0, -1}, resumption.event));
  if (!decision.admissions.empty()) {
    tell_launcher();
    log_start(decision);
  }
  // The generation has ended: limit the wait for members that live and do not return.
  if (std::exchange(running_, members_.running()) && !running_) {
    gathering_since_ = now(self);
    limit_wait();
    forget_stalls();
  }
  follow(reports_.changed(members_.forming(), now(self)));
}

void rendezvous_state::follow(const missing_reports::step& next) {
  if (closing_)
    return;
  if (next.call_next)
    self->delayed_send(self, std::max(*next.call_next - now(self), instant::duration::zero()), missing_due{});
  if (!next.update)
    return;
  auto missing = members_.missing();
  missing.waited_seconds = static_cast<std::uint32_t>(next.waited.count());
  // The waiting member with the lowest slot (rank 0, if it has arrived) logs the report for all.
  missing.report = next.report;
  for (const auto& [slot, link] : members_.waiting()) {
    send(link, encode(address{}, missing));
    missing.report = false;
  }
}

void rendezvous_state::tell_missing() {
  follow(reports_.due(now(self)));
}

void rendezvous_state::log_start(const membership_decision& decision) {
  if (!options_.log)
    return;
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now(self) - gathering_since_);
  const auto count = decision.admissions.size();
  options_.log->info((count == 1 ? "1 rank" : "all " + std::to_string(count) + " ranks") +
                     " initialised in " + std::to_string(waited.count()) + " ms (generation " +
                     std::to_string(decision.roster.generation) + ")");
}

// The common part of the welcome is copied and encoded only once, because there may be many members.
void rendezvous_state::admit(const membership_decision& decision) {
  auto all = decision.roster;
  for (auto& [name, text] : options_.settings.job_wide())
    all.settings.push_back({name, text});
  const auto encoded = encode(all);
  peers_expected again;
  for (const auto& admission : decision.admissions) {
    send(admission.to,
         encode_welcome(address{all.generation, 0, -1}, admission.rank, admission.joined_late, encoded));
    if (const auto found = links_.find(admission.to); found != links_.end())
      again.peers.push_back(found->second.peer);
  }
  for (const auto& listener : listeners_)
    caf::anon_send(listener, again);
}

void rendezvous_state::send(link_id link, const envelope& message) {
  if (auto found = links_.find(link); found != links_.end())
    caf::anon_send(found->second.handle, message);
}

void rendezvous_state::refuse(link_id link, const refused& reason) {
  auto found = links_.find(link);
  if (found == links_.end())
    return;
  if (options_.log && !reason.dismissed)
    options_.log->warning("refusing " + found->second.peer + ": " + reason.reason);
  caf::anon_send(found->second.handle, encode(address{}, reason));
  caf::anon_send(found->second.handle, close_atom::value);
}

rendezvous_actor::behavior_type rendezvous(rendezvous_actor::stateful_pointer<rendezvous_state> self,
                                           rendezvous_options options, membership members) {
  auto& state = self->state;
  state.begin(std::move(options), std::move(members));
  return {
      [&state](const listener_started& listener_started) { state.listen_by(listener_started.handle); },
      [&state](const slot_exited& event) { state.exited(event); },
      [&state](const slot_started& event) { state.started(event); },
      [&state](const slot_retired& event) { state.retired(event); },
      [&state](const no_more_starts&) { state.complete(); },
      [&state](const hosts_failed& event) { state.keep_failed(event.hosts); },
      [&state](const watch_generations& event) { state.watched_by(event); },
      [&state](const watch_fates& event) { state.fates_watched_by(event); },
      [&state](const watch_stalls& event) { state.stalls_watched_by(event); },
      [&state](const stall_explained& event) { state.take_explanation(event); },
      [&state](const drain_answered& answer) { state.answer(answer); },
      [&state](const watch_records& event) { state.records_watched_by(event); },
      [&state](const records_answered& answer) { state.answer(answer); },
      [&state](const regroup_overdue&) { state.overdue(); },
      [&state](const missing_due&) { state.tell_missing(); },
      [&state](const stalls_due&) { state.check_stalls(); },
      [&state](const stall_unexplained& event) { state.miss_explanation(event); },
      [&state](const link_stayed_down& event) { state.stayed_down(event); },
      [&state](const slot_unreported& slot_unreported) { state.take_unreported(slot_unreported.link); },
      [&state](const member_reported& event) { state.take_report(event); },
      [&state](close_atom) { state.close(); },
      [&state](const link_opened& event) { state.opened(event); },
      [&state](const link_received& event) { state.received(event); },
      [&state](const link_closed& event) { state.closed(event); },
  };
}

expected<rendezvous_service> start_rendezvous(caf::actor_system& system, const rendezvous_options& options) {
  auto members = restore_membership(options);
  if (!members)
    return members.error();
  record_start(options, *members);
  auto actor = system.spawn(rendezvous, options, std::move(*members));
  auto listening =
      listen(system, options.bind_ips, options.port, caf::actor_cast<caf::actor>(actor), options.links);
  if (!listening) {
    caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
    return listening.error();
  }
  for (const auto& opened : *listening)
    caf::anon_send(actor, listener_started{opened.handle});
  return rendezvous_service{actor, listening->front().port};
}

} // namespace farandole
