#include "actors/member.hpp"

#include <utility>

#include "actors/interfaces/link.hpp"
#include "actors/interfaces/member_watcher.hpp"
#include "actors/object_key.hpp"
#include "actors/post.hpp"
#include "actors/set/set_actors.hpp"
#include "actors/set/set_keeper.hpp"
#include "collectives/paths/forced_path.hpp"
#include "messages/drain.hpp"

namespace farandole {

namespace {

// How long the rendezvous may take to say why a link to another member ended before this member acts on it
// alone.
constexpr std::chrono::milliseconds suspicion{600};

error shut_down() {
  return {error_kind::shut_down, "Farandole has been shut down; call init() again to go on"};
}

std::shared_ptr<const relay_tree> tree_of(const std::vector<member>& members, const settings& values) {
  std::vector<std::string_view> hosts;
  for (auto& one : members)
    hosts.push_back(one.host);
  relay_options options;
  options.least_members = static_cast<std::size_t>(values.integer(setting::relay_ranks));
  return std::make_shared<const relay_tree>(hosts, options);
}

} // namespace

// ---- joining -------------------------------------------------------------------------------------

void member_state::begin(member_setup how) {
  setup_ = std::move(how);
  self->set_down_handler([this](const caf::down_msg& what) { down(what); });
  self->set_exit_handler([this](const caf::exit_msg& what) { take_down(what.reason); });
  post_setup mail;
  mail.member = caf::actor_cast<member_actor>(self);
  mail.links = setup_.links;
  mail.rendezvous_ip = setup_.rendezvous_ip;
  mail.rendezvous_port = setup_.rendezvous_port;
  mail.log = setup_.log;
  post_ = self->spawn(post, std::move(mail));
  self->monitor(post_);
  if (setup_.rendezvous_ip.empty()) {
    welcome alone;
    alone.generation = 1;
    member me;
    me.host = setup_.introduce.host;
    me.host_name = setup_.introduce.host_name;
    alone.members.push_back(me);
    return welcomed(alone);
  }
  auto listening =
      listen(self->system(), setup_.bind_ip, 0, caf::actor_cast<caf::actor>(post_), setup_.links);
  if (!listening)
    return fail_start(listening.error());
  listener_ = listening->handle;
  setup_.introduce.address = setup_.bind_ip + ":" + std::to_string(listening->port);
  calls_ = redial{setup_.settings.duration(setting::rendezvous_timeout)};
  call_rendezvous();
}

void member_state::hear(const envelope& message) {
  auto misread = [&](const error& problem) {
    broke("a message of the rendezvous was not understood: " + problem.text);
  };
  if (message.kind() == wire::Envelope::Body::WELCOME) {
    auto what = decode_welcome(message);
    what ? welcomed(*what) : misread(what.error());
  } else if (message.kind() == wire::Envelope::Body::AWAITED) {
    auto missing = decode_awaited(message);
    missing ? awaits(*missing) : misread(missing.error());
  } else if (message.kind() == wire::Envelope::Body::REFUSED) {
    auto what = decode_refused(message);
    what ? refused_by(*what) : misread(what.error());
  } else if (message.kind() == wire::Envelope::Body::RESUMED) {
    auto what = decode_resumed(message);
    what ? resumed_by(*what) : misread(what.error());
  } else if (message.kind() == wire::Envelope::Body::CHANGED) {
    auto what = decode_changed(message);
    what ? warned(*what) : misread(what.error());
  } else if (message.kind() == wire::Envelope::Body::LOST) {
    auto what = decode_lost(message);
    what ? lost_member(*what) : misread(what.error());
  }
}

void member_state::welcomed(const welcome& what) {
  if (stage_ != stage::joining || tree_ || !(setup_.rendezvous_ip.empty() || obeys(what.epoch)))
    return;
  setup_.deadline->resume(now(self));
  auto& shared = *setup_.shared;
  generation_ = what.generation;
  shared.rank = what.rank;
  shared.members = what.members;
  shared.generation = what.generation;
  shared.must_sync = what.must_sync;
  shared.joined_late = what.joined_late;
  shared.sets_kept = what.sets_kept;
  shared.kept = what.sets;
  if (setup_.log)
    setup_.log->rank(what.rank);
  std::vector<std::pair<std::string, std::string>> values;
  for (auto& one : what.settings)
    values.emplace_back(one.name, one.value);
  for (auto& difference : setup_.settings.override_with(values))
    if (setup_.log)
      setup_.log->warning(difference);

  if (auto why = objection_to_path(setup_.settings))
    return fail_start(std::move(why));
  warn_of_unprotected_path();
  shared.object_key = object_key(setup_.settings, setup_.secret);
  shared.tree = tree_of(shared.members, setup_.settings);
  if (listener_) {
    peers_expected others;
    for (const auto& each : shared.members)
      others.peers.push_back(each.address);
    caf::anon_send(listener_, std::move(others));
  }
  shared.sets.patience(setup_.settings.duration(setting::start_timeout));
  shared.elastic = elastic();
  shared.dynamic_sets = setup_.settings.flag(setting::dynamic_process_sets);
  start_generation();
}

// Once for the job: by one member, in its first generation.
void member_state::warn_of_unprotected_path() {
  const auto warning = unprotected_path_warning(setup_.settings);
  if (setup_.log && !warning.empty() && generation_ == 1 && setup_.shared->rank == 0)
    setup_.log->warning(warning);
}

void member_state::start_generation() {
  auto me = caf::actor_cast<member_actor>(self);
  set_setup how;
  how.shared = setup_.shared;
  how.generation = generation_;
  how.settings = setup_.settings;
  how.secret = setup_.secret;
  how.post = post_;
  how.member = me;
  how.log = setup_.log;
  if (setup_.simulate)
    setup_.simulate(how);
  sets_ = self->spawn(set_keeper, how);
  self->monitor(sets_);
  start_heartbeats();
  how.place = setup_.shared->global;
  how.sets = sets_;
  how.ready = [me] { caf::anon_send(me, ready_atom::value); };
  how.drained = [me] { caf::anon_send(me, drained_atom::value); };
  how.broke = [me](const error& what) { caf::anon_send(me, generation_broken{what.text, what.kind}); };
  auto entered = [this](const set_actors& actors) {
    worker_ = actors.worker;
    mover_ = actors.mover;
    auto& shared = *setup_.shared;
    caf::anon_send(post_,
                   generation_entered{generation_, shared.rank, shared.members, shared.tree,
                                      actors.entered(0, {}), caf::actor_cast<envelope_actor>(heartbeats_)});
  };
  tree_ = self->spawn(supervisor, set_tree(how, entered));
  self->monitor(tree_);
}

void member_state::connected() {
  if (stage_ != stage::joining)
    return;
  stage_ = stage::in;
  if (heartbeats_)
    self->send(heartbeats_, ready_atom::value);
  setup_.shared->alive = true;
  const auto below = setup_.shared->tree->children(setup_.shared->rank);
  still_linked_.insert(below.begin(), below.end());
  if (!std::exchange(told_.start, true))
    setup_.shared->started.set_value({});
  if (ended_)
    ended_in_order(generation_ended(*ended_));
}

void member_state::fail_start(error why) {
  if (!std::exchange(told_.start, true))
    setup_.shared->started.set_value(why);
  over(why);
}

// ---- losing somebody -----------------------------------------------------------------------------

void member_state::lost_member(const lost& what) {
  if (what.generation != generation_ || stage_ == stage::out)
    return;
  const auto who = what.rank < 0 ? std::string("the job") : setup_.shared->name_of(what.rank);
  error why{error_kind::disconnected,
            who + " " + what.reason + "; this operation cannot complete without it"};
  if (stage_ == stage::joining)
    why = {elastic() ? error_kind::disconnected : error_kind::unknown,
           who + " " + what.reason + " before all members were connected"};
  why.consequence = what.rank != setup_.shared->rank;
  stage_ == stage::joining ? fail_start(std::move(why)) : over(why);
}

// Framework threads look at it when they commit.
void member_state::warned(const changed& what) {
  if (what.generation == generation_ && stage_ != stage::out)
    setup_.shared->changes.set(what.count, what.removals_only);
}

// Before the welcome the rank means nothing here: a member of a generation that this process missed had
// called.
void member_state::lost_peer(const peer_gone& what) {
  if (stage_ == stage::out || !tree_)
    return;
  still_linked_.erase(what.rank);
  if (stage_ == stage::leaving) {
    return leave_if_done();
  }
  // Whichever end it was that closed it: the other one reports this one.
  suspect({generation_, what.rank,
           "lost its connection to rank " + std::to_string(setup_.shared->rank) +
               (what.reason.empty() ? "" : " (" + what.reason + ")")});
}

// The rendezvous knows better why, for it watches the process; but it must say so soon.
void member_state::suspect(lost what) {
  suspect_ = std::move(what);
  report(suspect_);
  self->delayed_send(self, suspicion, retry_atom::value);
}

void member_state::broke(const std::string& reason, error_kind kind) {
  if (stage_ == stage::out)
    return;
  if (setup_.log)
    setup_.log->error(reason);
  // Whoever could not be reached is lost, or about to be: those who can be are in the next generation.
  const bool lost_another = kind == error_kind::disconnected || kind == error_kind::timed_out;
  const lost own{generation_, setup_.shared->rank, "cannot go on: " + reason};
  if (stage_ == stage::joining && elastic() && tree_ && lost_another) {
    report(own);
    return fail_start({error_kind::disconnected, reason});
  }
  if (stage_ == stage::joining)
    return fail_start({error_kind::unknown, reason});
  const auto silent = lost_another
                          ? stuck_.behind_failure(setup_.shared->silent.get(), kind == error_kind::timed_out)
                          : std::nullopt;
  report(silent ? lost{generation_, silent->rank, stuck_rules::complaint(*silent)} : own);
  over({kind == error_kind::timed_out ? kind : error_kind::unknown, reason});
}

// A member whose requests cannot be read may be waiting for answers that never come: it is lost, for all.
void member_state::faulted(const member_fault& what) {
  auto reason = "sent requests that break the protocol: " + what.reason;
  if (setup_.log)
    setup_.log->error("rank " + std::to_string(what.rank) + " " + reason);
  report({generation_, what.rank, reason});
  if (setup_.rendezvous_ip.empty())
    broke("this rank " + reason);
}

void member_state::report(const lost& what) {
  address from{generation_, 0, setup_.shared->rank};
  self->send(post_, outbound_to_rendezvous{encode(from, what)});
}

void member_state::down(const caf::down_msg& what) {
  if (post_ && what.source == post_.address()) {
    if (!std::exchange(told_.end, true))
      setup_.shared->ended.set_value();
    if (stage_ != stage::out)
      broke("the post of this member ended: " + to_string(what.reason));
    return;
  }
  auto mine = (tree_ && what.source == tree_.address()) || (sets_ && what.source == sets_.address());
  if (mine && stage_ != stage::out)
    broke("an actor of this member failed: " + to_string(what.reason));
}

// ---- leaving in order ----------------------------------------------------------------------------

// Where another one's leaving has reached this member before its own caller's, it is on its way out in order
// already, with a deadline; who cut that short would close without a farewell, and count as lost.
void member_state::leave(departure how) {
  how.submitted = setup_.shared->global->door ? setup_.shared->global->door->submitted() : 0;
  if (stage_ == stage::in && worker_)
    self->send(worker_, leave_request{std::move(how)});
  else if (stage_ == stage::joining)
    fail_start(shut_down());
  else if (stage_ != stage::leaving)
    over(shut_down());
}

// By the link that the farewell takes later, so that it comes before it.
void member_state::withdraw() {
  address from{generation_, 0, setup_.shared->rank};
  if (stage_ == stage::in)
    self->send(post_, outbound_to_rendezvous{encode(from, leaving{generation_})});
}

// Others may be in, and leave again, before this member's own paths are connected.
void member_state::ended_in_order(const generation_ended& what) {
  ended_ = what;
  if (stage_ != stage::in)
    return;
  stage_ = stage::leaving;
  setup_.shared->alive = false;
  self->send(mover_, drained_atom::value);
  self->send(sets_, what);
  auto patience = setup_.settings.duration(setting::shutdown_timeout);
  leave_until_ = now(self) + patience;
  self->delayed_send(self, patience, retry_atom::value);
}

// Who is below closes first: the leader's last word has reached whoever closes. So nothing is lost in a
// socket's buffer.
void member_state::leave_if_done() {
  if (stage_ == stage::leaving && undrained_ == 0 && still_linked_.empty())
    say_farewell();
}

void member_state::drained() {
  --undrained_;
  leave_if_done();
}

void member_state::say_farewell() {
  if (std::exchange(told_.farewell, true))
    return;
  address from{generation_, 0, setup_.shared->rank};
  self->send(post_, outbound_to_rendezvous{
                        encode(from, farewell{generation_, ended_->departed, ended_->interrupted})});
  over(ended_->why, true);
}

void member_state::deadline() {
  if (stage_ == stage::leaving && now(self) >= leave_until_)
    return say_farewell();
  if (stage_ == stage::in && suspect_.rank >= 0)
    lost_member(suspect_);
}

// The end, whatever came before: what is not settled fails with `why`, links close.
void member_state::over(const error& why, bool in_order) {
  if (stage_ == stage::out)
    return;
  stage_ = stage::out;
  if (heartbeats_)
    self->send_exit(heartbeats_, caf::exit_reason::user_shutdown);
  heartbeats_ = nullptr;
  give_up_neighbours(in_order);
  setup_.shared->alive = false;
  if (worker_)
    self->send(worker_, generation_over{why});
  if (mover_)
    self->send(mover_, generation_over{why});
  if (sets_)
    self->send(sets_, generation_over{why});
  if (listener_)
    caf::anon_send(listener_, close_atom::value);
  self->send(post_, close_atom::value);
}

// The runtime goes: nothing of this tree stays behind.
void member_state::take_down(const caf::error& why) {
  over(shut_down());
  self->send_exit(post_, why);
  if (sets_)
    self->send_exit(sets_, why);
  if (tree_)
    self->send_exit(tree_, why);
  self->quit(why);
}

member_actor::behavior_type member_root(member_actor::stateful_pointer<member_state> self, member_setup how) {
  auto& state = self->state;
  state.begin(std::move(how));
  return {
      [&state](const envelope& message) { state.hear(message); },
      [&state](const rendezvous_gone& what) { state.lost_rendezvous(what); },
      [&state](const peer_gone& what) { state.lost_peer(what); },
      [&state](ready_atom) { state.connected(); },
      [&state](const member_fault& what) { state.faulted(what); },
      [&state](const generation_broken& what) { state.broke(what.reason, what.kind); },
      [&state](const processes_silent& what) { state.hear_of_silence(what); },
      [&state](const operations_held_up& what) { state.held_up(what); },
      [&state](const leave_request& what) { state.leave(what.how); },
      [&state](withdraw_atom) { state.withdraw(); },
      [&state](const generation_ended& what) { state.ended_in_order(what); },
      [&state](drained_atom) { state.drained(); },
      [&state](retry_atom) { state.deadline(); },
      [&state](call_atom) { state.call_rendezvous(); },
  };
}

} // namespace farandole
