#include "collectives/transport/shm/lane_placement.hpp"

#include <sched.h>

#include <vector>

#include "collectives/transport/wait/yield_policy.hpp"

namespace farandole {

namespace {

/// A member that starts this much later than this one is considered held up.
constexpr auto late = wake_up_time;
constexpr int most_moves = 2;

std::uint32_t step_of(std::uint64_t placement) {
  return static_cast<std::uint32_t>(placement >> 32);
}

int core_of(std::uint64_t placement) {
  return static_cast<int>(static_cast<std::uint32_t>(placement));
}

} // namespace

lane_placement::lane_placement(std::shared_ptr<shm_segment> shared, std::uint32_t rank, double cores)
    : segment_(std::move(shared)), rank_(rank), placement_(segment_->layout().members, rank, cores) {}

void lane_placement::begin(std::uint64_t step) {
  if (placement_.alone())
    return;
  step_ = static_cast<std::uint32_t>(step + 1); // 0 is the value in a fresh segment
  settled_ = moved_for_late_ = false;
  moves_ = 0;
  begun_ = std::chrono::steady_clock::now();
  segment_->counters(rank_).placement.store(place_here(), std::memory_order_relaxed);
  look();
}

void lane_placement::look() {
  if (settled_)
    return;
  const auto sight = see();
  const bool held_up = sight.missing && placement_.one_core_each() && !moved_for_late_ &&
                       std::chrono::steady_clock::now() - begun_ >= late;
  moved_for_late_ = moved_for_late_ || held_up;
  if (sight.others.too_many || held_up) {
    ++moves_;
    move_to_another_core(sight.others.full_cores);
    segment_->counters(rank_).placement.store(place_here(), std::memory_order_relaxed);
  }
  settled_ = (!sight.missing && !sight.others.too_many) || moves_ >= most_moves;
}

lane_placement::sight lane_placement::see() const {
  sight sight;
  std::vector<int> cores;
  for (std::uint32_t member = 0; member < segment_->layout().members; ++member) {
    const auto placement = segment_->counters(member).placement.load(std::memory_order_relaxed);
    const bool begun = member == rank_ || step_of(placement) == step_;
    sight.missing = sight.missing || !begun;
    cores.push_back(begun ? core_of(placement) : -1);
  }
  sight.others = placement_.crowd_at(sched_getcpu(), cores);
  return sight;
}

std::uint64_t lane_placement::place_here() const {
  return std::uint64_t{step_} << 32 | static_cast<std::uint32_t>(sched_getcpu());
}

} // namespace farandole
