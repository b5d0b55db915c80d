#include "actors/process_set/set_tree.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "actors/interfaces/generation.hpp"
#include "actors/interfaces/heartbeats.hpp"
#include "actors/interfaces/stalls.hpp"
#include "actors/process_set/address_exchange.hpp"
#include "actors/process_set/fusion_scheduler.hpp"
#include "actors/process_set/gpu_options.hpp"
#include "actors/process_set/negotiator.hpp"
#include "actors/process_set/path_connector.hpp"
#include "actors/process_set/relay_actor.hpp"
#include "actors/process_set/set_actors.hpp"
#include "actors/process_set/set_client.hpp"
#include "actors/process_set/set_options.hpp"
#include "actors/process_set/stall_watch.hpp"
#include "actors/submission/device_gate.hpp"
#include "actors/submission/request_check.hpp"
#include "collectives/transport/shm/shm_fast_path.hpp"

namespace farandole {

namespace {

/// Maximum number of operations in flight, and of names remembered, in one set.
constexpr std::size_t queue_capacity = 65536;
constexpr std::int32_t leader = 0;

// How long a lane whose path broke waits for the reason. The leader's decision to restart a set arrives within
// moments, the rendezvous' notice of a lost member in less than a second.
constexpr std::chrono::seconds patience{10};

// Starts the children one after the other; each may need the handles of those before it.
struct growing_tree {
  set_setup settings;
  set_actors actors;
  std::shared_ptr<set_client_actor> bell = std::make_shared<set_client_actor>(); ///< set client, once it runs

  farandole::address self() const {
    return {settings.generation, settings.set_state->number, settings.shared->rank};
  }

  // The ranks whose processes every operation of this set needs: the members, and the relays between them and the
  // leader.
  std::set<std::int32_t> depends_on() const {
    std::set<std::int32_t> ranks;
    for (auto rank : settings.ranks())
      while (rank >= 0 && ranks.insert(rank).second)
        rank = settings.shared->tree->parent(rank);
    return ranks;
  }

  // The rank that reports finished bundles to the leader if the leader has no lane of this set; -1 if it has one.
  std::int32_t reporter() const {
    auto first = settings.ranks().front();
    return first == leader ? -1 : first;
  }

  leader_setup location() const {
    leader_setup setup{settings.generation,   settings.set_state->number, leader, {}, reporter(), nullptr,
                       settings.set_state->id};
    // Of a set to which the leader does not belong, only its members have a record.
    if (setup.reporter < 0)
      setup.recorder = settings.shared->recorder;
    if (!settings.takes_part())
      setup.ended = settings.ended;
    return setup;
  }

  caf::actor start_scheduler(caf::event_based_actor* parent) {
    auto setup = location();
    setup.launches = settings.shared->launch_clock;
    setup.launches->open(setup.set, settings.ranks());
    setup.waits_on_devices = device_waits_of(settings);
    actors.scheduler =
        parent->spawn(fusion_scheduler, std::move(setup), fusion_of(settings), settings.router);
    return caf::actor_cast<caf::actor>(actors.scheduler);
  }

  caf::actor start_negotiator(caf::event_based_actor* parent) {
    actors.negotiator =
        parent->spawn(negotiator, location(), negotiation_of(settings), actors.scheduler, settings.member);
    return caf::actor_cast<caf::actor>(actors.negotiator);
  }

  caf::actor start_address_exchange(caf::event_based_actor* parent) {
    address_exchange_setup setup{self(), settings.ranks(), settings.router, settings.member};
    actors.address_exchange = parent->spawn(address_exchange, std::move(setup));
    return caf::actor_cast<caf::actor>(actors.address_exchange);
  }

  caf::actor start_relay(caf::event_based_actor* parent) {
    relay_actor_setup setup;
    setup.self = self();
    setup.leader = leader;
    setup.members = static_cast<std::int32_t>(settings.ranks().size());
    setup.rules.ranks = ranks_below(settings, settings.shared->rank);
    setup.rules.branches = branches_of(settings);
    setup.router = settings.router;
    setup.watcher = settings.member;
    if (!settings.takes_part())
      setup.ended = settings.ended;
    actors.relay = parent->spawn(relay_behaviour, std::move(setup));
    return caf::actor_cast<caf::actor>(actors.relay);
  }

  // The lane reports every finished bundle to the fusion scheduler: directly on the leader, and through the set
  // client on the reporter.
  set_setup::bundle_ended bundle_news() const {
    auto reports = reporter() == settings.shared->rank ? bell : nullptr;
    // A failure in the global set is reported after its operations are settled: no other component can give a better
    // reason for it.
    return [shared = std::weak_ptr(settings.shared), scheduler = actors.scheduler, reports,
            broke = settings.set_state->number == 0 ? settings.broke : nullptr](
               std::uint64_t sequence, std::uint64_t bytes, const error& problem) {
      if (auto counters = shared.lock()) {
        counters->bundles.fetch_add(1, std::memory_order_relaxed);
        counters->bytes_moved.fetch_add(bytes, std::memory_order_relaxed);
      }
      if (scheduler)
        caf::anon_send(scheduler, bundle_finished{sequence});
      if (reports)
        caf::anon_send(*reports, bundle_finished{sequence});
      if (broke && problem && problem.kind != error_kind::unimplemented)
        broke(problem);
    };
  }

  std::shared_ptr<lane_thread> make_lane() const {
    lane_thread::wiring wiring;
    wiring.name = lane_name(settings.set_state->id);
    wiring.operation_timeout = settings.settings.duration(setting::operation_timeout);
    wiring.timeout_citation = settings.settings.cited(setting::operation_timeout);
    if (settings.set_state->number != 0) {
      wiring.broke = settings.broke;
      wiring.patience = patience;
    }
    wiring.finished = bundle_news();
    wiring.recorder = settings.shared->recorder;
    wiring.ranges = settings.shared->ranges;
    wiring.set = settings.set_state->id;
    wiring.nccl = nccl_options_of(settings);
    wiring.staging = [](std::int32_t device) -> expected<std::unique_ptr<staging>> {
      auto all = devices_of_process();
      return all ? staging::open(std::move(*all), device) : all.error();
    };
    wiring.rank = static_cast<std::size_t>(view_of(settings).rank);
    wiring.settles_at_launch = settles_at_launch(settings);
    wiring.ledger = settings.shared->device_ledger;
    wiring.launches = settings.shared->launches;
    wiring.number = settings.set_state->number;
    wiring.remark = [shared = std::weak_ptr(settings.shared), ranks = depends_on()] {
      const auto all = shared.lock();
      return all ? all->silence_notice(ranks) : std::string{};
    };
    return std::make_shared<lane_thread>(std::move(wiring));
  }

  caf::actor start_connector(caf::event_based_actor* parent) {
    if (settings.simulated_connector) {
      actors.connector = settings.simulated_connector(parent, settings, bundle_news());
      return caf::actor_cast<caf::actor>(actors.connector);
    }
    settings.set_state->lane = make_lane();
    path_connector_setup setup;
    setup.set = view_of(settings);
    setup.set_id = settings.set_state->id;
    setup.paths = paths_of(settings);
    if (settings.set_state->number == 0)
      setup.paths.meeting_news = [shared = std::weak_ptr(settings.shared)](const std::string& missing) {
        if (auto shared_state = shared.lock())
          shared_state->unconnected.set(missing);
      };
    setup.self = self();
    setup.leader = leader;
    setup.router = settings.router;
    setup.broke = settings.broke;
    setup.ready = settings.ready;
    setup.drained = settings.drained;
    setup.lane = settings.set_state->lane;
    setup.connect_timeout = settings.settings.duration(setting::start_timeout);
    setup.connect_citation = settings.settings.cited(setting::start_timeout);
    setup.connected = [set_state = std::weak_ptr(settings.set_state),
                       shared = std::weak_ptr(settings.shared)](std::shared_ptr<shm_fast_path> connected,
                                                                std::shared_ptr<heartbeat_words> words) {
      if (auto shared_state = set_state.lock())
        shared_state->fast_path.set(std::move(connected));
      // Only those of the global set, which contains all members of this host.
      if (auto all = shared.lock(); all && set_state.lock() == all->global)
        all->heartbeats.set(std::move(words));
    };
    setup.log = settings.log;
    actors.connector = parent->spawn(path_connector, std::move(setup));
    return caf::actor_cast<caf::actor>(actors.connector);
  }

  caf::actor start_stall_watch(caf::event_based_actor* parent) {
    stall_watch_setup setup;
    setup.rules = stall_rules::of(settings.settings);
    if (setup.rules.ignores_shutdown() && settings.leads() && settings.set_state->number == 0 && settings.log)
      settings.log->warning(setup.rules.shutdown_setting + " is ignored: it is not longer than " +
                            setup.rules.warning_setting);
    setup.negotiator = actors.negotiator;
    setup.client = actors.client;
    setup.member = settings.member;
    setup.recorder = settings.shared->recorder;
    setup.set_id = settings.set_state->id;
    return caf::actor_cast<caf::actor>(parent->spawn(stall_watch, std::move(setup)));
  }

  caf::actor start_client(caf::event_based_actor* parent) {
    auto size = static_cast<std::int32_t>(settings.ranks().size());
    settings.set_state->queue = std::make_shared<submission_queue>(
        settings.set_state->id, size, queue_capacity,
        [bell = bell] { caf::anon_send(*bell, doorbell_atom::value); }, settings.set_state->ranks,
        settings.set_state->epoch,
        static_cast<std::size_t>(settings.settings.integer(setting::fast_path_limit)),
        settings.shared->recorder, settings.shared->ranges);
    set_client_setup setup;
    setup.recorder = settings.shared->recorder;
    setup.queue = settings.set_state->queue;
    setup.self = self();
    setup.leader = leader;
    setup.rank = view_of(settings).rank;
    setup.members = size;
    setup.ranks = settings.set_state->ranks;
    setup.router = settings.router;
    setup.connector = actors.connector;
    setup.launches = settings.shared->launches;
    // Jobs that the path connector of the global set drops end with the generation, so they need no lane.
    if (settings.set_state->number != 0)
      setup.lane = settings.set_state->lane;
    setup.member = settings.member;
    setup.sets = settings.sets;
    setup.stuck = stuck_rules::of(settings.settings);
    setup.inline_tensors = inline_of(settings);
    setup.depends_on = depends_on();
    setup.ended = settings.ended;
    setup.broke = settings.broke;
    setup.settled = settings.settled;
    setup.name_of = [shared = std::weak_ptr(settings.shared)](std::int32_t rank) {
      const auto shared_state = shared.lock();
      return shared_state ? shared_state->name_of(rank) : "rank " + std::to_string(rank);
    };
    setup.fast_path_limit_bytes =
        static_cast<std::size_t>(settings.settings.integer(setting::fast_path_limit));
    setup.fast_path = [set_state = std::weak_ptr(settings.set_state)]() -> std::shared_ptr<shm_fast_path> {
      auto shared_state = set_state.lock();
      return shared_state ? shared_state->fast_path.get() : nullptr;
    };
    if (const auto& lane = settings.set_state->lane) {
      setup.results = lane->results();
      setup.move = [lane = std::weak_ptr(lane)](operation_state_ptr operation) {
        if (auto running = lane.lock())
          running->call([operation = std::move(operation)] {
            operation->handed_on.store(false, std::memory_order_release);
            operation->try_settle();
          });
      };
    }
    setup.log = settings.log;
    actors.client = parent->spawn(set_client, std::move(setup));
    *bell = actors.client;
    return caf::actor_cast<caf::actor>(actors.client);
  }
};

} // namespace

std::vector<std::int32_t> set_setup::ranks() const {
  if (!set_state->ranks.empty())
    return set_state->ranks;
  std::vector<std::int32_t> all;
  for (auto& member : shared->members)
    all.push_back(member.rank);
  return all;
}

bool set_setup::takes_part() const {
  return rank_in_set(shared->rank, set_state->ranks) >= 0;
}

bool set_setup::leads() const {
  return shared->rank == leader;
}

set_entered set_actors::entered(std::uint32_t number, std::vector<std::int32_t> ranks) const {
  return {number,
          std::move(ranks),
          caf::actor_cast<envelope_actor>(client),
          caf::actor_cast<envelope_actor>(connector),
          caf::actor_cast<envelope_actor>(negotiator),
          address_exchange,
          caf::actor_cast<envelope_actor>(relay)};
}

bool set_setup::relays() const {
  auto me = shared->rank;
  auto ranks = ranks_below(*this, me);
  return !leads() && std::any_of(ranks.begin(), ranks.end(), [me](auto rank) { return rank != me; });
}

supervisor_spec set_tree(const set_setup& setup, std::function<void(const set_actors&)> started) {
  auto tree = std::make_shared<growing_tree>();
  tree->settings = setup;
  supervisor_spec spec;
  spec.name = setup.set_state->number == 0 ? "generation " + std::to_string(setup.generation)
                                           : "process set " + std::to_string(setup.set_state->id);
  spec.strategy = restart_strategy::all_for_one;
  // Operations in flight cannot survive a restart, and the other members must restart as well. So one death ends the
  // tree, and its parent handles the rest.
  spec.intensity.limit = 0;
  auto child = [&](std::string name, caf::actor (growing_tree::*start)(caf::event_based_actor*)) {
    spec.children.push_back(
        {std::move(name), [tree, start](auto* parent) { return (*tree.*start)(parent); }});
  };
  if (setup.leads()) {
    child("fusion scheduler", &growing_tree::start_scheduler);
    child("negotiator", &growing_tree::start_negotiator);
    child("address exchange", &growing_tree::start_address_exchange);
  }
  if (setup.relays())
    child("relay", &growing_tree::start_relay);
  if (setup.takes_part()) {
    child("path_connector", &growing_tree::start_connector);
    child("set client", &growing_tree::start_client);
  }
  if (!setup.settings.flag(setting::stall_check_disable) &&
      setup.settings.duration(setting::stall_warning_time).count() > 0 &&
      (setup.leads() || setup.takes_part()))
    child("stall watch", &growing_tree::start_stall_watch);
  auto& last = spec.children.back().start;
  last = [tree, start = std::move(last), started = std::move(started)](caf::event_based_actor* parent) {
    auto handle = start(parent);
    started(tree->actors);
    return handle;
  };
  return spec;
}

} // namespace farandole
