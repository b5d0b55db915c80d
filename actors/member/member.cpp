#include "actors/member/member.hpp"

#include <utility>

#include "actors/event_loop/link_messages.hpp"
#include "actors/interfaces/member_watcher.hpp"
#include "actors/member/member_record.hpp"
#include "actors/member/message_router.hpp"
#include "actors/member/object_key.hpp"
#include "actors/member/thread_pinning.hpp"
#include "actors/process_set/process_set_manager.hpp"
#include "actors/process_set/set_actors.hpp"
#include "collectives/transport/registry/forced_path.hpp"
#include "messages/wire/drain.hpp"

namespace farandole {

namespace {

// Time for the rendezvous to report why the link to another member ended. After it, this member acts on its own
// report.
constexpr std::chrono::milliseconds suspicion{600};

constexpr std::chrono::microseconds retry_interval{50};

error shut_down() {
  return {error_kind::shut_down, "Farandole has been shut down; call init() again to go on"};
}

std::shared_ptr<const relay_tree> tree_of(const std::vector<member>& members, const settings& values) {
  std::vector<std::string_view> hosts;
  for (auto& member : members)
    hosts.push_back(member.host);
  relay_options options;
  options.least_members = static_cast<std::size_t>(values.integer(setting::relay_ranks));
  return std::make_shared<const relay_tree>(hosts, options);
}

} // namespace

// ---- joining -------------------------------------------------------------------------------------

void member_state::begin(member_setup setup) {
  setup_ = std::move(setup);
  self->set_down_handler([this](const caf::down_msg& down_message) { down(down_message); });
  self->set_exit_handler([this](const caf::exit_msg& exit_message) { take_down(exit_message.reason); });
  message_router_setup router_setup;
  router_setup.member = caf::actor_cast<member_actor>(self);
  router_setup.links = setup_.links;
  router_setup.rendezvous_ip = setup_.rendezvous_ip;
  router_setup.rendezvous_port = setup_.rendezvous_port;
  router_setup.log = setup_.log;
  router_setup.recorder = setup_.shared->recorder;
  router_ = self->spawn(message_router, std::move(router_setup));
  self->monitor(router_);
  if (setup_.rendezvous_ip.empty()) {
    welcome alone;
    alone.generation = 1;
    member me;
    me.host = setup_.own_hello.host;
    me.host_name = setup_.own_hello.host_name;
    alone.members.push_back(me);
    return welcomed(alone);
  }
  auto listening =
      listen(self->system(), setup_.bind_ip, 0, caf::actor_cast<caf::actor>(router_), setup_.links);
  if (!listening)
    return fail_start(listening.error());
  listener_ = listening->handle;
  setup_.own_hello.address = setup_.bind_ip + ":" + std::to_string(listening->port);
  calls_ = reconnect_backoff{setup_.settings.duration(setting::rendezvous_timeout)};
  record_regroup(*setup_.shared, regroup_phase::waiting, recorded_generation(*setup_.shared));
  call_rendezvous();
}

void member_state::receive(const envelope& message) {
  auto misread = [&](const error& problem) {
    broke("a message of the rendezvous was not understood: " + problem.text);
  };
  if (message.kind() == wire::Envelope::Body::WELCOME) {
    auto greeting = decode_welcome(message);
    greeting ? welcomed(*greeting) : misread(greeting.error());
  } else if (message.kind() == wire::Envelope::Body::AWAITED) {
    auto missing = decode_awaited(message);
    missing ? awaits(*missing) : misread(missing.error());
  } else if (message.kind() == wire::Envelope::Body::REFUSED) {
    auto refusal = decode_refused(message);
    refusal ? refused_by(*refusal) : misread(refusal.error());
  } else if (message.kind() == wire::Envelope::Body::RESUMED) {
    auto resumed_result = decode_resumed(message);
    resumed_result ? resumed_by(*resumed_result) : misread(resumed_result.error());
  } else if (message.kind() == wire::Envelope::Body::CHANGED) {
    auto changed_result = decode_changed(message);
    changed_result ? warned(*changed_result) : misread(changed_result.error());
  } else if (message.kind() == wire::Envelope::Body::LOST) {
    auto loss = decode_lost(message);
    loss ? lost_member(*loss) : misread(loss.error());
  } else if (message.kind() == wire::Envelope::Body::STALL_REPORT) {
    auto report = decode_stall_report(message);
    report ? setup_.stalls->push(*report) : misread(report.error());
  }
}

void member_state::welcomed(const welcome& greeting) {
  if (stage_ != stage::joining || tree_ || !(setup_.rendezvous_ip.empty() || obeys(greeting.epoch)))
    return;
  setup_.deadline->resume(now(self));
  rendezvous_away_ = false;
  auto& shared = *setup_.shared;
  generation_ = greeting.generation;
  shared.rank = greeting.rank;
  shared.members = greeting.members;
  shared.generation = greeting.generation;
  shared.must_sync = greeting.must_sync;
  shared.joined_late = greeting.joined_late;
  shared.sets_kept = greeting.sets_kept;
  shared.kept = greeting.sets;
  if (setup_.log)
    setup_.log->rank(greeting.rank);
  std::vector<std::pair<std::string, std::string>> values;
  for (auto& setting : greeting.settings)
    values.emplace_back(setting.name, setting.value);
  for (auto& difference : setup_.settings.override_with(values))
    if (setup_.log)
      setup_.log->warning(difference);

  if (auto reason = objection_to_path(setup_.settings))
    return fail_start(std::move(reason));
  warn_of_unprotected_path();
  // The member runs on the event loop's thread, which starts the lanes of this generation: they inherit its core.
  pin_calling_thread(setup_.settings, shared.members[static_cast<std::size_t>(shared.rank)], setup_.log);
  shared.object_key = object_key(setup_.settings, setup_.secret);
  shared.tree = tree_of(shared.members, setup_.settings);
  if (listener_) {
    peers_expected others;
    for (const auto& member : shared.members)
      others.peers.push_back(member.address);
    caf::anon_send(listener_, std::move(others));
  }
  shared.sets.patience(setup_.settings.duration(setting::start_timeout));
  shared.elastic = elastic();
  shared.dynamic_sets = setup_.settings.flag(setting::dynamic_process_sets);
  record_regroup(shared, regroup_phase::connecting, generation_);
  start_generation();
}

// Logged once for the job: by rank 0 of the first generation.
void member_state::warn_of_unprotected_path() {
  const auto warning = unprotected_path_warning(setup_.settings);
  if (setup_.log && !warning.empty() && generation_ == 1 && setup_.shared->rank == 0)
    setup_.log->warning(warning);
}

void member_state::start_generation() {
  auto me = caf::actor_cast<member_actor>(self);
  set_setup setup;
  setup.shared = setup_.shared;
  setup.generation = generation_;
  setup.settings = setup_.settings;
  setup.secret = setup_.secret;
  setup.router = router_;
  setup.member = me;
  setup.log = setup_.log;
  if (setup_.simulate)
    setup_.simulate(setup);
  sets_ = self->spawn(process_set_manager, setup);
  self->monitor(sets_);
  start_heartbeats();
  setup.set_state = setup_.shared->global;
  setup.sets = sets_;
  setup.ready = [me] { caf::anon_send(me, ready_atom::value); };
  setup.drained = [me] { caf::anon_send(me, drained_atom::value); };
  setup.broke = [me](const error& reason) {
    caf::anon_send(me, generation_broken{reason.text, reason.kind});
  };
  auto entered = [this](const set_actors& actors) {
    client_ = actors.client;
    connector_ = actors.connector;
    auto& shared = *setup_.shared;
    auto routes = actors.entered(0, {});
    inject(shared.faults, self->home_system(), 0, shared.rank, actors.scheduler.address(), routes);
    caf::anon_send(router_,
                   generation_entered{generation_, shared.rank, shared.members, shared.tree,
                                      std::move(routes), caf::actor_cast<envelope_actor>(heartbeats_)});
  };
  tree_ = self->spawn(supervisor, set_tree(setup, entered));
  self->monitor(tree_);
}

void member_state::connected() {
  if (stage_ != stage::joining)
    return;
  stage_ = stage::in;
  record_generation_begin(*setup_.shared, setup_.secret);
  if (heartbeats_)
    self->send(heartbeats_, ready_atom::value);
  setup_.shared->alive = true;
  const auto below = setup_.shared->tree->children(setup_.shared->rank);
  still_linked_.insert(below.begin(), below.end());
  if (setup_.log)
    setup_.log->debug("joined the job as rank " + std::to_string(setup_.shared->rank) + " of " +
                      std::to_string(setup_.shared->members.size()) + " on " + setup_.own_hello.host_name +
                      " in generation " + std::to_string(generation_));
  if (!std::exchange(notified_.start, true))
    setup_.shared->started.set_value({});
  if (ended_)
    ended_in_order(generation_ended(*ended_));
}

void member_state::fail_start(error reason) {
  if (!std::exchange(notified_.start, true))
    setup_.shared->started.set_value(reason);
  end_generation(reason);
}

// ---- losing a member -----------------------------------------------------------------------------

void member_state::lost_member(const lost& loss) {
  if (loss.generation != generation_ || stage_ == stage::out)
    return;
  record_regroup(*setup_.shared, regroup_phase::lost, generation_);
  const auto name = loss.rank < 0 ? std::string("the job") : setup_.shared->name_of(loss.rank);
  if (setup_.log)
    setup_.log->debug("lost " + name + ": " + loss.reason);
  error reason{error_kind::disconnected,
               name + " " + loss.reason + "; this operation cannot complete without it"};
  if (stage_ == stage::joining)
    reason = {elastic() ? error_kind::disconnected : error_kind::unknown,
              name + " " + loss.reason + " before all members were connected"};
  reason.consequence = loss.rank != setup_.shared->rank;
  stage_ == stage::joining ? fail_start(std::move(reason)) : end_generation(reason);
}

// Publishes the pending membership changes; framework threads read them when they commit.
void member_state::warned(const changed& changed) {
  if (changed.generation == generation_ && stage_ != stage::out)
    setup_.shared->changes.set(changed.count, changed.removals_only);
}

// Before the welcome the rank has no meaning for this process: the peer belongs to a generation that this process has
// missed.
void member_state::lost_peer(const peer_gone& event) {
  if (stage_ == stage::out || !tree_)
    return;
  still_linked_.erase(event.rank);
  if (stage_ == stage::leaving) {
    return leave_if_done();
  }
  // Either end may have closed the link. Each of the two members reports the other one.
  suspect({generation_, event.rank,
           "lost its connection to rank " + std::to_string(setup_.shared->rank) +
               (event.reason.empty() ? "" : " (" + event.reason + ")")});
}

// Reports a suspected loss. The rendezvous is given some time to name the cause, because it knows of the ends of
// processes. After that time the member acts on its own suspicion.
void member_state::suspect(lost loss) {
  suspect_ = std::move(loss);
  report(suspect_);
  self->delayed_send(self, suspicion, retry_atom::value);
}

void member_state::broke(const std::string& reason, error_kind kind) {
  if (stage_ == stage::out)
    return;
  if (setup_.log)
    setup_.log->error(reason);
  // A member that could not be reached is lost or will be lost soon. The members that can be reached form the next
  // generation.
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
  end_generation({kind == error_kind::timed_out ? kind : error_kind::unknown, reason});
}

// A member whose requests cannot be decoded may wait for answers that will never arrive. It is reported as lost,
// which ends the generation for all members.
void member_state::faulted(const member_fault& event) {
  auto reason = "sent requests that break the protocol: " + event.reason;
  if (setup_.log)
    setup_.log->error("rank " + std::to_string(event.rank) + " " + reason);
  report({generation_, event.rank, reason});
  if (setup_.rendezvous_ip.empty())
    broke("this rank " + reason);
}

void member_state::report(const lost& loss) {
  address from{generation_, 0, setup_.shared->rank};
  self->send(router_, rendezvous_message{encode(from, loss)});
}

void member_state::down(const caf::down_msg& down_message) {
  if (router_ && down_message.source == router_.address()) {
    if (!std::exchange(notified_.end, true))
      setup_.shared->ended.set_value();
    if (stage_ != stage::out)
      broke("the message router of this member ended: " + to_string(down_message.reason));
    return;
  }
  const bool sets_failed = sets_ && down_message.source == sets_.address();
  if (!sets_failed && !(tree_ && down_message.source == tree_.address()))
    return;
  if (sets_failed)
    sets_ = nullptr;
  failure_ = {error_kind::unknown, "an actor of this member failed: " + to_string(down_message.reason)};
  broke(failure_.text);
  fail_operations();
}

// The actors that would settle the operations in flight have ended, or are ending. While the process-set manager runs,
// it ends the process sets.
void member_state::fail_operations() {
  const auto global = setup_.shared->global->fail(failure_);
  const auto others = sets_ ? submission_queue::attempt::done : setup_.shared->sets.fail(failure_);
  if (global == submission_queue::attempt::busy || others == submission_queue::attempt::busy)
    return self->delayed_send(self, retry_interval, retry_atom::value);
  failure_ = {};
}

// ---- leaving in order ----------------------------------------------------------------------------

// If the departure of another member has arrived first, this member is leaving in order already, with a deadline.
// Cutting that short would close the links without a farewell, and this member would count as lost.
void member_state::leave(departure manner) {
  manner.submitted = setup_.shared->global->queue ? setup_.shared->global->queue->submitted() : 0;
  if (stage_ == stage::in && client_)
    self->send(client_, leave_request{std::move(manner)});
  else if (stage_ == stage::joining)
    fail_start(shut_down());
  else if (stage_ != stage::leaving)
    end_generation(shut_down());
}

// Sent on the same link as the later farewell, so that the rendezvous receives it first.
void member_state::withdraw() {
  address from{generation_, 0, setup_.shared->rank};
  if (stage_ == stage::in)
    self->send(router_, rendezvous_message{encode(from, leaving{generation_})});
}

// Other members may complete the start and leave again before this member's paths are connected. Then connected()
// processes the event.
void member_state::ended_in_order(const generation_ended& event) {
  ended_ = event;
  if (stage_ != stage::in)
    return;
  stage_ = stage::leaving;
  setup_.shared->alive = false;
  self->send(connector_, drained_atom::value);
  self->send(sets_, event);
  auto patience = setup_.settings.duration(setting::shutdown_timeout);
  leave_until_ = now(self) + patience;
  self->delayed_send(self, patience, retry_atom::value);
}

// Members close their links from the bottom of the relay tree upwards. So a member closes only after it has received
// the last message of the leader, and no message is lost in a socket buffer.
void member_state::leave_if_done() {
  if (stage_ == stage::leaving && undrained_ == 0 && still_linked_.empty())
    say_farewell();
}

void member_state::drained() {
  --undrained_;
  leave_if_done();
}

void member_state::say_farewell() {
  if (std::exchange(notified_.farewell, true))
    return;
  address from{generation_, 0, setup_.shared->rank};
  self->send(router_,
             rendezvous_message{encode(from, farewell{generation_, ended_->departed, ended_->interrupted})});
  end_generation(ended_->reason, true);
}

void member_state::deadline() {
  if (stage_ == stage::leaving && now(self) >= leave_until_)
    return say_farewell();
  if (stage_ == stage::in && suspect_.rank >= 0)
    lost_member(suspect_);
  if (failure_)
    fail_operations();
}

// Ends the generation on this member, from any stage. Pending operations fail with `reason`, and all links close.
void member_state::end_generation(const error& reason, bool in_order) {
  if (stage_ == stage::out)
    return;
  stage_ = stage::out;
  record_generation_end(*setup_.shared, reason);
  if (setup_.log)
    setup_.log->debug((tree_ ? "left generation " + std::to_string(generation_) : "did not join the job") +
                      (in_order ? " in order: " : ": ") + reason.text);
  if (heartbeats_)
    self->send_exit(heartbeats_, caf::exit_reason::user_shutdown);
  heartbeats_ = nullptr;
  give_up_neighbours(in_order);
  setup_.shared->alive = false;
  if (client_)
    self->send(client_, generation_over{reason});
  if (connector_)
    self->send(connector_, generation_over{reason});
  if (sets_)
    self->send(sets_, generation_over{reason});
  if (listener_)
    caf::anon_send(listener_, close_atom::value);
  self->send(router_, close_atom::value);
}

// The runtime is being destroyed: ends all actors of this member.
void member_state::take_down(const caf::error& reason) {
  end_generation(shut_down());
  self->send_exit(router_, reason);
  if (sets_)
    self->send_exit(sets_, reason);
  if (tree_)
    self->send_exit(tree_, reason);
  self->quit(reason);
}

member_actor::behavior_type member_root(member_actor::stateful_pointer<member_state> self,
                                        member_setup setup) {
  auto& state = self->state;
  state.begin(std::move(setup));
  return {
      [&state](const envelope& message) { state.receive(message); },
      [&state](const rendezvous_gone& event) { state.lost_rendezvous(event); },
      [&state](const peer_gone& event) { state.lost_peer(event); },
      [&state](ready_atom) { state.connected(); },
      [&state](const member_fault& event) { state.faulted(event); },
      [&state](const generation_broken& event) { state.broke(event.reason, event.kind); },
      [&state](const processes_silent& report) { state.hear_of_silence(report); },
      [&state](const operations_held_up& event) { state.held_up(event); },
      [&state](const stalls_noticed& event) { state.notice_stalls(event); },
      [&state](const leave_request& request) { state.leave(request.manner); },
      [&state](withdraw_atom) { state.withdraw(); },
      [&state](const generation_ended& event) { state.ended_in_order(event); },
      [&state](drained_atom) { state.drained(); },
      [&state](retry_atom) { state.deadline(); },
      [&state](call_atom) { state.call_rendezvous(); },
  };
}

} // namespace farandole
