#include "actors/rendezvous.hpp"

#include <utility>

namespace farandole {

namespace {

// How long a link that ended waits for the exit that explains it; well within the second in which the others
// must know.
constexpr std::chrono::milliseconds explanation{250};

} // namespace

void rendezvous_state::begin(rendezvous_options how) {
  members_ = membership{how.members, 1};
  how_ = std::move(how);
}

void rendezvous_state::received(const link_received& what) {
  auto route = what.link;
  auto misread = [&](const error& problem) { refuse(route, {problem.text}); };
  switch (what.message.kind()) {
  case wire::Envelope::Body::HELLO:
    if (auto said = decode_hello(what.message))
      carry_out(members_.join(route, *said));
    else
      misread(said.error());
    break;
  case wire::Envelope::Body::FAREWELL:
    if (auto said = decode_farewell(what.message))
      carry_out(members_.leave(route, said->generation));
    else
      misread(said.error());
    break;
  case wire::Envelope::Body::LOST:
    if (auto said = decode_lost(what.message); !said)
      misread(said.error());
    else if (said->rank == what.message.source())
      take_report({route, *said});
    else
      self->delayed_send(self, explanation, member_reported{route, *said});
    break;
  case wire::Envelope::Body::LEAVING:
    if (auto said = decode_leaving(what.message))
      take_leaving(route);
    else
      misread(said.error());
    break;
  case wire::Envelope::Body::DRAIN:
    if (auto said = decode_drain(what.message))
      take_drain(route, *said);
    else
      misread(said.error());
    break;
  default:
    refuse(route, {"a message of this kind is not for the rendezvous"});
  }
}

// What a member says of itself is taken at once; what it says of another waits, for the host driver may say
// it better.
void rendezvous_state::take_report(const member_reported& what) {
  carry_out(members_.report(what.link, what.what));
}

// At once, so that it counts before the member's own farewell; the watcher need not be asked.
void rendezvous_state::take_leaving(link_id link) {
  const auto slot = members_.slot_of(link);
  if (!how_.members.elastic || !slot)
    return;
  carry_out(members_.retire(*slot));
  if (watcher_)
    self->send(watcher_, slot_leaving{*slot});
}

void rendezvous_state::take_drain(link_id link, const drain& asked) {
  if (asked.wire_version != wire_version)
    return refuse(link,
                  {"wire version " + std::to_string(asked.wire_version) + " does not match this job's " +
                   std::to_string(wire_version) + ": use the farandole that started it"});
  if (watcher_)
    return self->send(watcher_, drain_asked{link, asked});
  answer({link, {"this job is not elastic: its members cannot leave while it runs", {}, false}});
}

void rendezvous_state::answer(const drain_answered& what) {
  tell(what.link, encode(address{}, what.what));
}

void rendezvous_state::exited(const slot_exited& what) {
  carry_out(members_.exit(what.slot, what.how));
}

void rendezvous_state::started(const slot_started& what) {
  members_.expect(what.slot);
}

void rendezvous_state::retired(const slot_retired& what) {
  carry_out(members_.retire(what.slot));
}

void rendezvous_state::overdue(const regroup_overdue& what) {
  carry_out(members_.give_up_waiting(what.generation));
}

void rendezvous_state::opened(const link_opened& what) {
  links_[what.link] = {what.handle, what.peer};
  if (closing_)
    caf::anon_send(what.handle, close_atom::value);
}

void rendezvous_state::closed(const link_closed& what) {
  links_.erase(what.link);
  auto reason =
      "closed its connection to the rendezvous" + (what.reason.empty() ? "" : " (" + what.reason + ")");
  self->delayed_send(self, explanation, link_stayed_down{what.link, reason});
  if (closing_ && links_.empty())
    self->quit();
}

void rendezvous_state::stayed_down(const link_stayed_down& what) {
  carry_out(members_.disconnect(what.link, what.reason));
}

void rendezvous_state::close() {
  closing_ = true;
  if (listener_)
    caf::anon_send(listener_, close_atom::value);
  for (auto& [id, link] : links_)
    caf::anon_send(link.handle, close_atom::value);
  if (links_.empty())
    self->quit();
}

void rendezvous_state::carry_out(const membership_decision& what) {
  for (auto& one : what.refusals)
    refuse(one.to, one.why);
  for (auto& one : what.admissions) {
    auto value = one.welcome;
    for (auto& [name, text] : how_.settings.job_wide())
      value.settings.push_back({name, text});
    tell(one.to, encode(address{value.generation, 0, -1}, value));
  }
  for (auto& one : what.notices)
    tell(one.to, encode(address{one.lost.generation, 0, -1}, one.lost));
  for (auto& one : what.warnings)
    tell(one.to, encode(address{one.changed.generation, 0, -1}, one.changed));
  if (!what.admissions.empty() && watcher_)
    self->send(watcher_, generation_formed{members_.generation(), members_.slots()});
  if (!what.notices.empty() && !members_.running())
    self->delayed_send(self, how_.settings.duration(setting::regroup_timeout),
                       regroup_overdue{members_.generation()});
}

void rendezvous_state::tell(link_id link, const envelope& message) {
  if (auto known = links_.find(link); known != links_.end())
    caf::anon_send(known->second.handle, message);
}

void rendezvous_state::refuse(link_id link, const refused& why) {
  auto known = links_.find(link);
  if (known == links_.end())
    return;
  if (how_.log && !why.dismissed)
    how_.log->warning("refusing " + known->second.peer + ": " + why.reason);
  caf::anon_send(known->second.handle, encode(address{}, why));
  caf::anon_send(known->second.handle, close_atom::value);
}

rendezvous_actor::behavior_type rendezvous(rendezvous_actor::stateful_pointer<rendezvous_state> self,
                                           rendezvous_options how) {
  auto& state = self->state;
  state.begin(std::move(how));
  return {
      [&state](const listener_started& what) { state.listen_by(what.handle); },
      [&state](const slot_exited& what) { state.exited(what); },
      [&state](const slot_started& what) { state.started(what); },
      [&state](const slot_retired& what) { state.retired(what); },
      [&state](const watch_generations& what) { state.watched_by(what); },
      [&state](const drain_answered& what) { state.answer(what); },
      [&state](const regroup_overdue& what) { state.overdue(what); },
      [&state](const link_stayed_down& what) { state.stayed_down(what); },
      [&state](const member_reported& what) { state.take_report(what); },
      [&state](close_atom) { state.close(); },
      [&state](const link_opened& what) { state.opened(what); },
      [&state](const link_received& what) { state.received(what); },
      [&state](const link_closed& what) { state.closed(what); },
  };
}

expected<rendezvous_service> start_rendezvous(caf::actor_system& system, const rendezvous_options& options) {
  auto actor = system.spawn(rendezvous, options);
  auto listening =
      listen(system, options.bind_ip, options.port, caf::actor_cast<caf::actor>(actor), options.links);
  if (!listening) {
    caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
    return listening.error();
  }
  caf::anon_send(actor, listener_started{listening->handle});
  return rendezvous_service{actor, listening->port};
}

} // namespace farandole
