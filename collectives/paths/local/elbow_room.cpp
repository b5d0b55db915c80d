#include "collectives/paths/local/elbow_room.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>

#include "collectives/paths/waiting/cores.hpp"
#include "collectives/paths/waiting/yield_ledger.hpp"

namespace farandole {

namespace {

/// Who has not begun for so long after another is held up.
constexpr auto late = wake_up_time;
constexpr int most_moves = 2;

std::uint32_t step_of(std::uint64_t place) {
  return static_cast<std::uint32_t>(place >> 32);
}

int core_of(std::uint64_t place) {
  return static_cast<int>(static_cast<std::uint32_t>(place));
}

} // namespace

std::uint32_t share_of_core(std::uint32_t members, double cores) {
  return members < 2 ? 0 : static_cast<std::uint32_t>(std::ceil(members / std::max(1.0, std::floor(cores))));
}

crowd crowd_at(int here, std::uint32_t rank, std::span<const int> cores, std::uint32_t share) {
  crowd seen;
  std::uint32_t before_me = 0;
  std::vector<int> others;
  for (std::uint32_t member = 0; member < cores.size(); ++member) {
    const int core = cores[member];
    if (member == rank || core < 0)
      continue;
    before_me += member < rank && core == here ? 1 : 0;
    others.push_back(core);
    if (std::count(others.begin(), others.end(), core) == static_cast<std::ptrdiff_t>(share))
      seen.full_cores.push_back(core);
  }
  seen.too_many = share > 0 && before_me >= share;
  return seen;
}

elbow_room::elbow_room(std::shared_ptr<window> shared, std::uint32_t rank, double cores)
    : window_(std::move(shared)), rank_(rank), share_(share_of_core(window_->layout().members, cores)) {}

void elbow_room::begin(std::uint64_t step) {
  if (share_ == 0)
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
  const auto seen = see();
  const bool held_up =
      seen.missing && share_ == 1 && !moved_for_late_ && std::chrono::steady_clock::now() - begun_ >= late;
  moved_for_late_ = moved_for_late_ || held_up;
  if (seen.others.too_many || held_up) {
    ++moves_;
    move_to_another_core(seen.others.full_cores);
    window_->counters(rank_).place.store(place_here(), std::memory_order_relaxed);
  }
  settled_ = (!seen.missing && !seen.others.too_many) || moves_ >= most_moves;
}

elbow_room::sight elbow_room::see() const {
  sight seen;
  std::vector<int> cores;
  for (std::uint32_t member = 0; member < window_->layout().members; ++member) {
    const auto place = window_->counters(member).place.load(std::memory_order_relaxed);
    const bool begun = member == rank_ || step_of(place) == step_;
    seen.missing = seen.missing || !begun;
    cores.push_back(begun ? core_of(place) : -1);
  }
  seen.others = crowd_at(sched_getcpu(), rank_, cores, share_);
  return seen;
}

std::uint64_t elbow_room::place_here() const {
  return std::uint64_t{step_} << 32 | static_cast<std::uint32_t>(sched_getcpu());
}

} // namespace farandole
