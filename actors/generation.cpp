#include "actors/generation.hpp"

#include <utility>

#include "actors/fusion_scheduler.hpp"
#include "actors/mover.hpp"
#include "actors/negotiator.hpp"
#include "actors/worker.hpp"
#include "collectives/paths/board.hpp"

namespace farandole {

namespace {

/// Most operations in flight, and names remembered, in one set.
constexpr std::size_t door_capacity = 65536;
constexpr std::int32_t leader = 0;

set_view view_of(const generation_setup& how) {
  return {how.generation, 0, how.shared->rank, how.shared->members};
}

board_options board_of(const generation_setup& how) {
  board_options board;
  auto& values = how.settings;
  // A set of one has nobody to meet on a board.
  board.one_host = view_of(how).one_host() && how.shared->members.size() > 1;
  board.on = values.flag(setting::board) && values.text(setting::cpu_path) != "ucx";
  board.limit_bytes = static_cast<std::size_t>(values.integer(setting::board_limit));
  board.area_bytes = static_cast<std::size_t>(values.integer(setting::board_area));
  board.footprint = &board::footprint;
  return board;
}

negotiation_options negotiation_of(const generation_setup& how) {
  negotiation_options options;
  for (auto& one : how.shared->members)
    options.members.push_back(one.rank);
  options.cache_capacity = static_cast<std::size_t>(how.settings.integer(setting::cache_capacity));
  options.board = board_of(how);
  return options;
}

fusion_options fusion_of(const generation_setup& how) {
  fusion_options options;
  auto& members = how.shared->members;
  options.threshold_bytes = static_cast<std::size_t>(how.settings.integer(setting::fusion_threshold));
  options.local_size = members[static_cast<std::size_t>(how.shared->rank)].local_size;
  for (auto& one : members)
    options.homogeneous = options.homogeneous && one.local_size == options.local_size;
  options.groups_alone = how.settings.flag(setting::disable_group_fusion);
  options.cycle_time = how.settings.duration(setting::cycle_time);
  return options;
}

path_options paths_of(const generation_setup& how) {
  path_options options;
  auto board = board_of(how);
  options.secret = how.secret;
  options.chunk_bytes = static_cast<std::size_t>(how.settings.integer(setting::window_chunk));
  options.slots = static_cast<std::uint32_t>(how.settings.integer(setting::window_slots));
  options.board_bytes = board.on && board.one_host ? board.area_bytes : 0;
  options.adasum_message_bytes = static_cast<std::size_t>(how.settings.integer(setting::adasum_chunk));
  options.wishes.forced = how.settings.text(setting::cpu_path);
  options.wishes.hierarchical_allreduce = how.settings.flag(setting::hierarchical_allreduce);
  options.wishes.hierarchical_allgather = how.settings.flag(setting::hierarchical_allgather);
  return options;
}

// Makes the children one after the other; each may need the handles of those before it.
struct growing_tree {
  generation_setup how;
  generation_actors actors;
  std::function<void(const generation_actors&)> started;

  farandole::address self() const { return {how.generation, 0, how.shared->rank}; }

  caf::actor start_scheduler(caf::event_based_actor* parent) {
    auto place = set_place{how.generation, 0, leader};
    actors.scheduler =
        parent->spawn(fusion_scheduler, place, fusion_of(how), caf::actor_cast<outbound_actor>(how.post));
    return caf::actor_cast<caf::actor>(actors.scheduler);
  }

  caf::actor start_negotiator(caf::event_based_actor* parent) {
    auto place = set_place{how.generation, 0, leader};
    actors.negotiator = parent->spawn(negotiator, place, negotiation_of(how), actors.scheduler,
                                      caf::actor_cast<member_watcher_actor>(how.member));
    return caf::actor_cast<caf::actor>(actors.negotiator);
  }

  // The lane tells the scheduler, where there is one, that it has room again.
  std::shared_ptr<lane_thread> make_lane() const {
    lane_thread::wiring wiring;
    wiring.name = "farandole-lane";
    wiring.operation_timeout = how.settings.duration(setting::operation_timeout);
    wiring.timeout_citation = how.settings.cited(setting::operation_timeout);
    wiring.finished = [shared = std::weak_ptr(how.shared), scheduler = actors.scheduler, member = how.member](
                          std::uint64_t sequence, std::uint64_t bytes, const error& problem) {
      if (auto counters = shared.lock()) {
        counters->bundles.fetch_add(1, std::memory_order_relaxed);
        counters->bytes_moved.fetch_add(bytes, std::memory_order_relaxed);
      }
      if (scheduler)
        caf::anon_send(scheduler, bundle_finished{sequence});
      if (problem && problem.kind != error_kind::unimplemented)
        caf::anon_send(member, generation_broken{problem.text});
    };
    return std::make_shared<lane_thread>(std::move(wiring));
  }

  caf::actor start_mover(caf::event_based_actor* parent) {
    how.shared->lane = make_lane();
    mover_setup setup;
    setup.set = view_of(how);
    setup.paths = paths_of(how);
    setup.self = self();
    setup.leader = leader;
    setup.post = how.post;
    setup.member = how.member;
    setup.lane = how.shared->lane;
    setup.connect_timeout = how.settings.duration(setting::start_timeout);
    setup.connect_citation = how.settings.cited(setting::start_timeout);
    setup.connected = [shared = std::weak_ptr(how.shared)](std::shared_ptr<board> connected) {
      if (auto standing = shared.lock())
        standing->board(std::move(connected));
    };
    setup.log = how.log;
    actors.mover = parent->spawn(mover, std::move(setup));
    return caf::actor_cast<caf::actor>(actors.mover);
  }

  caf::actor start_worker(caf::event_based_actor* parent) {
    auto size = static_cast<std::int32_t>(how.shared->members.size());
    auto bell = std::make_shared<worker_actor>();
    how.shared->door = std::make_shared<door>(0, size, door_capacity,
                                              [bell] { caf::anon_send(*bell, doorbell_atom::value); });
    worker_setup setup;
    setup.door = how.shared->door;
    setup.self = self();
    setup.leader = leader;
    setup.rank = how.shared->rank;
    setup.members = size;
    setup.post = how.post;
    setup.mover = actors.mover;
    setup.member = how.member;
    setup.board = [shared = std::weak_ptr(how.shared)]() -> std::shared_ptr<board> {
      auto standing = shared.lock();
      return standing ? standing->board() : nullptr;
    };
    setup.log = how.log;
    actors.worker = parent->spawn(worker, std::move(setup));
    *bell = actors.worker;
    started(actors);
    return caf::actor_cast<caf::actor>(actors.worker);
  }
};

} // namespace

supervisor_spec generation_tree(const generation_setup& how,
                                std::function<void(const generation_actors&)> started) {
  auto tree = std::make_shared<growing_tree>();
  tree->how = how;
  tree->started = std::move(started);
  supervisor_spec spec;
  spec.name = "generation " + std::to_string(how.generation);
  spec.strategy = restart_strategy::all_for_one;
  // Operations in flight cannot be carried over a restart: one death ends the generation, and its parent says
  // so.
  spec.intensity.most = 0;
  auto child = [&](std::string name, caf::actor (growing_tree::*start)(caf::event_based_actor*)) {
    spec.children.push_back(
        {std::move(name), [tree, start](auto* parent) { return (*tree.*start)(parent); }});
  };
  if (how.shared->rank == leader) {
    child("fusion scheduler", &growing_tree::start_scheduler);
    child("negotiator", &growing_tree::start_negotiator);
  }
  child("mover", &growing_tree::start_mover);
  child("worker", &growing_tree::start_worker);
  return spec;
}

} // namespace farandole
