#include "actors/set/set_tree.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "actors/door/request_check.hpp"
#include "actors/interfaces/generation.hpp"
#include "actors/interfaces/heartbeats.hpp"
#include "actors/interfaces/stalls.hpp"
#include "actors/set/fusion_scheduler.hpp"
#include "actors/set/gatherer.hpp"
#include "actors/set/introducer.hpp"
#include "actors/set/mover.hpp"
#include "actors/set/negotiator.hpp"
#include "actors/set/set_actors.hpp"
#include "actors/set/stall_watch.hpp"
#include "actors/set/worker.hpp"
#include "collectives/paths/forced_path.hpp"
#include "collectives/paths/local/board.hpp"
#include "collectives/plan/fast_path_memory.hpp"

namespace farandole {

namespace {

/// Most operations in flight, and names remembered, in one set.
constexpr std::size_t door_capacity = 65536;
constexpr std::int32_t leader = 0;

// How long a lane whose path broke waits for the reason. The leader's word that a set starts anew takes
// moments, the rendezvous' word on a lost member less than a second.
constexpr std::chrono::seconds patience{10};

std::vector<member> members_of(const set_setup& how) {
  std::vector<member> members;
  for (auto rank : how.ranks())
    members.push_back(how.shared->members[static_cast<std::size_t>(rank)]);
  return members;
}

set_view view_of(const set_setup& how) {
  return {how.generation, how.place->number, place_of(how.shared->rank, how.place->ranks), members_of(how)};
}

board_options board_of(const set_setup& how) {
  board_options board;
  auto& values = how.settings;
  const auto forced = find_forced_path(values).name;
  auto members = members_of(how);
  auto same_host = [&](const member& one) { return one.host == members.front().host; };
  // A set of one has nobody to meet on a board.
  board.one_host = members.size() > 1 && std::all_of(members.begin(), members.end(), same_host);
  board.on = values.flag(setting::board) && (forced == "auto" || forced == "local");
  board.limit_bytes = static_cast<std::size_t>(values.integer(setting::board_limit));
  const auto memory =
      fast_path_memory::of(static_cast<std::size_t>(values.integer(setting::board_area)), members.size());
  board.area_bytes = memory.cells_bytes;
  board.footprint = &board::footprint;
  board.group_bytes = memory.staging_bytes / 4;
  board.collective_bytes = memory.staging_bytes > 0 ? board::collective_cell_bytes(members.size()) : 0;
  return board;
}

// Members of the set in the part of the tree that begins with `top`.
std::vector<std::int32_t> ranks_below(const set_setup& how, std::int32_t top) {
  auto ranks = how.shared->tree->subtree(top);
  if (!how.place->ranks.empty())
    std::erase_if(ranks, [&](auto rank) { return place_of(rank, how.place->ranks) < 0; });
  return ranks;
}

// The children that speak for others than themselves.
std::vector<relay_branch> branches_of(const set_setup& how) {
  std::vector<relay_branch> branches;
  for (auto child : how.shared->tree->children(how.shared->rank)) {
    relay_branch one{child, ranks_below(how, child)};
    if (one.ranks.size() > 1 || (one.ranks.size() == 1 && one.ranks.front() != child))
      branches.push_back(std::move(one));
  }
  return branches;
}

// Members of the set on each host.
std::map<std::string, std::int32_t> local_sizes(const std::vector<member>& members) {
  std::map<std::string, std::int32_t> sizes;
  for (auto& one : members)
    ++sizes[one.host];
  return sizes;
}

// Tensors travel inline between hosts, where there is no board, and where all members speak with the leader
// themselves. A path that was asked for by name carries all tensors.
inline_rules inline_of(const set_setup& how) {
  const auto members = members_of(how);
  if (how.shared->tree->relays() || local_sizes(members).size() < 2 ||
      find_forced_path(how.settings).name != "auto")
    return {};
  return inline_rules::of(static_cast<std::size_t>(how.settings.integer(setting::inline_limit)),
                          members.size());
}

negotiation_options negotiation_of(const set_setup& how) {
  negotiation_options options;
  options.members = how.ranks();
  options.cache_capacity = static_cast<std::size_t>(how.settings.integer(setting::cache_capacity));
  options.board = board_of(how);
  options.keeps_sets = how.place->number == 0;
  options.branches = branches_of(how);
  options.buckets = static_cast<std::size_t>(how.settings.integer(setting::relay_buckets));
  options.inline_bytes = inline_of(how).limit_bytes;
  return options;
}

fusion_options fusion_of(const set_setup& how) {
  fusion_options options;
  auto members = members_of(how);
  auto sizes = local_sizes(members);
  options.threshold_bytes = static_cast<std::size_t>(how.settings.integer(setting::fusion_threshold));
  options.local_size = sizes[members.front().host];
  for (auto& [host, size] : sizes)
    options.homogeneous = options.homogeneous && size == options.local_size;
  options.groups_alone = how.settings.flag(setting::disable_group_fusion);
  options.cycle_time = how.settings.duration(setting::cycle_time);
  return options;
}

path_options paths_of(const set_setup& how) {
  path_options options;
  auto board = board_of(how);
  options.secret = how.secret;
  options.chunk_bytes = static_cast<std::size_t>(how.settings.integer(setting::window_chunk));
  options.slots = static_cast<std::uint32_t>(how.settings.integer(setting::window_slots));
  if (board.on && board.one_host) {
    const auto area = static_cast<std::size_t>(how.settings.integer(setting::board_area));
    options.board_bytes = board.area_bytes;
    options.staging_bytes = fast_path_memory::of(area, how.ranks().size()).staging_bytes;
  }
  options.adasum_message_bytes = static_cast<std::size_t>(how.settings.integer(setting::adasum_chunk));
  options.wishes.forced = find_forced_path(how.settings).name;
  options.trusted_network = how.settings.flag(setting::trusted_network);
  options.outside_library = how.settings.text(setting::path_library);
  options.mpi = how.shared->mpi;
  options.wishes.hierarchical_allreduce = how.settings.flag(setting::hierarchical_allreduce);
  options.wishes.torus_allreduce = how.settings.flag(setting::torus_allreduce);
  options.wishes.hierarchical_allgather = how.settings.flag(setting::hierarchical_allgather);
  return options;
}

stall_rules stalls_of(const set_setup& how) {
  stall_rules rules;
  rules.warning = how.settings.duration(setting::stall_warning_time);
  rules.shutdown = how.settings.duration(setting::stall_shutdown_time);
  rules.warning_setting = how.settings.cited(setting::stall_warning_time);
  rules.shutdown_setting = how.settings.cited(setting::stall_shutdown_time);
  if (how.place->number != 0)
    rules.set = " of process set " + std::to_string(how.place->id);
  return rules;
}

// Makes the children one after the other; each may need the handles of those before it.
struct growing_tree {
  set_setup how;
  set_actors actors;
  std::shared_ptr<worker_actor> bell = std::make_shared<worker_actor>(); ///< the worker, once it runs

  farandole::address self() const { return {how.generation, how.place->number, how.shared->rank}; }

  // Whose processes operations of this set need: its members, and who stands between them and the leader.
  std::set<std::int32_t> depends_on() const {
    std::set<std::int32_t> ranks;
    for (auto rank : how.ranks())
      while (rank >= 0 && ranks.insert(rank).second)
        rank = how.shared->tree->parent(rank);
    return ranks;
  }

  // Who tells the leader how far the lanes are, where it has none of this set.
  std::int32_t reporter() const {
    auto first = how.ranks().front();
    return first == leader ? -1 : first;
  }

  set_place where() const {
    set_place place{how.generation, how.place->number, leader, {}, reporter()};
    if (!how.takes_part())
      place.ended = how.ended;
    return place;
  }

  caf::actor start_scheduler(caf::event_based_actor* parent) {
    actors.scheduler = parent->spawn(fusion_scheduler, where(), fusion_of(how), how.post);
    return caf::actor_cast<caf::actor>(actors.scheduler);
  }

  caf::actor start_negotiator(caf::event_based_actor* parent) {
    actors.negotiator = parent->spawn(negotiator, where(), negotiation_of(how), actors.scheduler, how.member);
    return caf::actor_cast<caf::actor>(actors.negotiator);
  }

  caf::actor start_introducer(caf::event_based_actor* parent) {
    introducer_setup setup{self(), how.ranks(), how.post, how.member};
    actors.introducer = parent->spawn(introducer, std::move(setup));
    return caf::actor_cast<caf::actor>(actors.introducer);
  }

  caf::actor start_gatherer(caf::event_based_actor* parent) {
    gatherer_setup setup;
    setup.self = self();
    setup.leader = leader;
    setup.members = static_cast<std::int32_t>(how.ranks().size());
    setup.rules.ranks = ranks_below(how, how.shared->rank);
    setup.rules.branches = branches_of(how);
    setup.post = how.post;
    setup.watcher = how.member;
    if (!how.takes_part())
      setup.ended = how.ended;
    actors.gatherer = parent->spawn(gatherer, std::move(setup));
    return caf::actor_cast<caf::actor>(actors.gatherer);
  }

  // The lane tells the scheduler, here or by the worker, that it has room again.
  set_setup::bundle_ended bundle_news() const {
    auto reports = reporter() == how.shared->rank ? bell : nullptr;
    // What breaks in the global set is told once it is settled: nobody knows better why.
    return [shared = std::weak_ptr(how.shared), scheduler = actors.scheduler, reports,
            broke = how.place->number == 0 ? how.broke : nullptr](std::uint64_t sequence, std::uint64_t bytes,
                                                                  const error& problem) {
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
    wiring.name = "farandole-lane";
    wiring.operation_timeout = how.settings.duration(setting::operation_timeout);
    wiring.timeout_citation = how.settings.cited(setting::operation_timeout);
    if (how.place->number != 0) {
      wiring.broke = how.broke;
      wiring.patience = patience;
    }
    wiring.finished = bundle_news();
    wiring.remark = [shared = std::weak_ptr(how.shared), ranks = depends_on()] {
      const auto all = shared.lock();
      return all ? all->silence_notice(ranks) : std::string{};
    };
    return std::make_shared<lane_thread>(std::move(wiring));
  }

  caf::actor start_mover(caf::event_based_actor* parent) {
    if (how.simulated_mover) {
      actors.mover = how.simulated_mover(parent, how, bundle_news());
      return caf::actor_cast<caf::actor>(actors.mover);
    }
    how.place->lane = make_lane();
    mover_setup setup;
    setup.set = view_of(how);
    setup.paths = paths_of(how);
    if (how.place->number == 0)
      setup.paths.meeting_news = [shared = std::weak_ptr(how.shared)](const std::string& missing) {
        if (auto standing = shared.lock())
          standing->unconnected.set(missing);
      };
    setup.self = self();
    setup.leader = leader;
    setup.post = how.post;
    setup.broke = how.broke;
    setup.ready = how.ready;
    setup.drained = how.drained;
    setup.lane = how.place->lane;
    setup.connect_timeout = how.settings.duration(setting::start_timeout);
    setup.connect_citation = how.settings.cited(setting::start_timeout);
    setup.connected = [place = std::weak_ptr(how.place), shared = std::weak_ptr(how.shared)](
                          std::shared_ptr<board> connected, std::shared_ptr<heartbeat_words> words) {
      if (auto standing = place.lock())
        standing->board.set(std::move(connected));
      // The global set's, which all members of this host are in.
      if (auto all = shared.lock(); all && place.lock() == all->global)
        all->heartbeats.set(std::move(words));
    };
    setup.log = how.log;
    actors.mover = parent->spawn(mover, std::move(setup));
    return caf::actor_cast<caf::actor>(actors.mover);
  }

  caf::actor start_stall_watch(caf::event_based_actor* parent) {
    stall_watch_setup setup;
    setup.rules = stalls_of(how);
    if (setup.rules.ignores_shutdown() && how.leads() && how.place->number == 0 && how.log)
      how.log->warning(setup.rules.shutdown_setting + " is ignored: it is not longer than " +
                       setup.rules.warning_setting);
    setup.negotiator = actors.negotiator;
    setup.worker = actors.worker;
    setup.member = how.member;
    setup.log = how.log;
    return caf::actor_cast<caf::actor>(parent->spawn(stall_watch, std::move(setup)));
  }

  caf::actor start_worker(caf::event_based_actor* parent) {
    auto size = static_cast<std::int32_t>(how.ranks().size());
    how.place->door = std::make_shared<door>(
        how.place->id, size, door_capacity, [bell = bell] { caf::anon_send(*bell, doorbell_atom::value); },
        how.place->ranks, how.place->epoch,
        static_cast<std::size_t>(how.settings.integer(setting::board_limit)));
    worker_setup setup;
    setup.door = how.place->door;
    setup.self = self();
    setup.leader = leader;
    setup.rank = view_of(how).rank;
    setup.members = size;
    setup.ranks = how.place->ranks;
    setup.post = how.post;
    setup.mover = actors.mover;
    // What the global set's mover drops is lost with the generation.
    if (how.place->number != 0)
      setup.lane = how.place->lane;
    setup.member = how.member;
    setup.sets = how.sets;
    setup.stuck = stuck_rules::of(how.settings);
    setup.inline_tensors = inline_of(how);
    setup.depends_on = depends_on();
    setup.ended = how.ended;
    setup.settled = how.settled;
    setup.name_of = [shared = std::weak_ptr(how.shared)](std::int32_t rank) {
      const auto standing = shared.lock();
      return standing ? standing->name_of(rank) : "rank " + std::to_string(rank);
    };
    setup.board_limit_bytes = static_cast<std::size_t>(how.settings.integer(setting::board_limit));
    setup.board = [place = std::weak_ptr(how.place)]() -> std::shared_ptr<board> {
      auto standing = place.lock();
      return standing ? standing->board.get() : nullptr;
    };
    if (const auto& lane = how.place->lane) {
      setup.results = lane->results();
      setup.move = [lane = std::weak_ptr(lane)](pending_ptr operation) {
        if (auto running = lane.lock())
          running->call([operation = std::move(operation)] {
            operation->handed_on.store(false, std::memory_order_release);
            operation->try_settle();
          });
      };
    }
    setup.log = how.log;
    actors.worker = parent->spawn(worker, std::move(setup));
    *bell = actors.worker;
    return caf::actor_cast<caf::actor>(actors.worker);
  }
};

} // namespace

std::vector<std::int32_t> set_setup::ranks() const {
  if (!place->ranks.empty())
    return place->ranks;
  std::vector<std::int32_t> all;
  for (auto& one : shared->members)
    all.push_back(one.rank);
  return all;
}

bool set_setup::takes_part() const {
  return place_of(shared->rank, place->ranks) >= 0;
}

bool set_setup::leads() const {
  return shared->rank == leader;
}

set_entered set_actors::entered(std::uint32_t number, std::vector<std::int32_t> ranks) const {
  return {number,
          std::move(ranks),
          caf::actor_cast<envelope_actor>(worker),
          caf::actor_cast<envelope_actor>(mover),
          caf::actor_cast<envelope_actor>(negotiator),
          introducer,
          caf::actor_cast<envelope_actor>(gatherer)};
}

bool set_setup::relays() const {
  auto me = shared->rank;
  auto ranks = ranks_below(*this, me);
  return !leads() && std::any_of(ranks.begin(), ranks.end(), [me](auto rank) { return rank != me; });
}

supervisor_spec set_tree(const set_setup& how, std::function<void(const set_actors&)> started) {
  auto tree = std::make_shared<growing_tree>();
  tree->how = how;
  supervisor_spec spec;
  spec.name = how.place->number == 0 ? "generation " + std::to_string(how.generation)
                                     : "process set " + std::to_string(how.place->id);
  spec.strategy = restart_strategy::all_for_one;
  // Operations in flight cannot be carried over a restart, and the other members must restart with it: one
  // death ends the tree, and its parent sees to the rest.
  spec.intensity.most = 0;
  auto child = [&](std::string name, caf::actor (growing_tree::*start)(caf::event_based_actor*)) {
    spec.children.push_back(
        {std::move(name), [tree, start](auto* parent) { return (*tree.*start)(parent); }});
  };
  if (how.leads()) {
    child("fusion scheduler", &growing_tree::start_scheduler);
    child("negotiator", &growing_tree::start_negotiator);
    child("introducer", &growing_tree::start_introducer);
  }
  if (how.relays())
    child("gatherer", &growing_tree::start_gatherer);
  if (how.takes_part()) {
    child("mover", &growing_tree::start_mover);
    child("worker", &growing_tree::start_worker);
  }
  if (!how.settings.flag(setting::stall_check_disable) && stalls_of(how).warning.count() > 0 &&
      (how.leads() || how.takes_part()))
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
