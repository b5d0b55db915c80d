#include "collectives/paths/local/elbow_room.hpp"

#include <sched.h>

#include <vector>

#include "collectives/paths/waiting/cores.hpp"
#include "collectives/paths/waiting/yield_ledger.hpp"

namespace farandole {

namespace {

/// Who has not begun for so long after another is held up.
constexpr auto late = 3 * wake_up_time;
constexpr int most_moves = 2;

std::uint32_t step_of(std::uint64_t place) {
  return static_cast<std::uint32_t>(place >> 32);
}

int core_of(std::uint64_t place) {
  return static_cast<int>(static_cast<std::uint32_t>(place));
}

} // namespace

elbow_room::elbow_room(std::shared_ptr<window> shared, std::uint32_t rank, bool core_each)
    : window_(std::move(shared)), rank_(rank), core_each_(core_each && window_->layout().members > 1) {}

void elbow_room::begin(std::uint64_t step) {
  if (!core_each_)
    return;
  step_ = static_cast<std::uint32_t>(step + 1); // a fresh window says 0
  settled_ = moved_for_late_ = false;
  moves_ = 0;
  begun_ = std::chrono::steady_clock::now();
  window_->counters(rank_).place.store(place_here(), std::memory_order_relaxed);
  look();
}

void elbow_room::look() {
  if (settled_)
    return;
  const int here = sched_getcpu();
  bool missing = false, shared = false;
  for (std::uint32_t member = 0; member < window_->layout().members; ++member) {
    const auto place = window_->counters(member).place.load(std::memory_order_relaxed);
    missing = missing || step_of(place) != step_;
    shared = shared || (member < rank_ && step_of(place) == step_ && core_of(place) == here);
  }
  const bool held_up = missing && !moved_for_late_ && std::chrono::steady_clock::now() - begun_ >= late;
  moved_for_late_ = moved_for_late_ || held_up;
  if (shared || held_up)
    move();
  settled_ = (!missing && !shared) || moves_ >= most_moves;
}

void elbow_room::move() {
  ++moves_;
  std::vector<int> taken;
  for (std::uint32_t member = 0; member < window_->layout().members; ++member)
    if (const auto place = window_->counters(member).place.load(std::memory_order_relaxed);
        step_of(place) == step_)
      taken.push_back(core_of(place));
  move_to_another_core(taken);
  window_->counters(rank_).place.store(place_here(), std::memory_order_relaxed);
}

std::uint64_t elbow_room::place_here() const {
  return std::uint64_t{step_} << 32 | static_cast<std::uint32_t>(sched_getcpu());
}

} // namespace farandole
