#include "actors/set/board_watch.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

void board_watch::drop_finished() {
  std::erase_if(slow_, [](const boarded_operation& each) { return !each.operation->awaited(); });
}

void board_watch::add_slow(pending_ptr operation, time since) {
  drop_finished();
  slow_.push_back({std::move(operation), since});
}

void board_watch::look(const std::function<void(pending_ptr)>& move) {
  std::erase_if(watched_, [&move](boarded_operation& each) {
    auto& operation = *each.operation;
    if (move && operation.can_move() && !operation.handed_on.exchange(true, std::memory_order_acq_rel))
      move(each.operation);
    return operation.try_settle(pending::mover::nobody) || !is_on_board(operation.now());
  });
}

// Only asks the board: who waits, or look(), settles.
std::vector<stall> board_watch::stalled(time now, std::chrono::nanoseconds limit,
                                        std::span<const std::int32_t> ranks) {
  drop_finished();
  std::vector<stall> all;
  const auto add = [&](const boarded_operation& each) {
    const auto waited = now - each.since;
    const auto need = each.operation->awaited();
    if (waited <= limit || !need)
      return;
    auto& seat = *each.operation->seat;
    stall found{each.operation->name, waited,
                seat.board().missing(seat.cell(), each.operation->round, *need)};
    if (!ranks.empty())
      for (auto& rank : found.missing)
        rank = ranks[static_cast<std::size_t>(rank)];
    if (!found.missing.empty())
      all.push_back(std::move(found));
  };
  std::for_each(watched_.begin(), watched_.end(), add);
  for (const auto& each : slow_) {
    const bool watched = std::any_of(watched_.begin(), watched_.end(), [&each](const auto& other) {
      return other.operation.get() == each.operation.get();
    });
    if (!watched)
      add(each);
  }
  return all;
}

std::chrono::nanoseconds board_watch::longest_wait(time now) const {
  std::chrono::nanoseconds longest{0};
  for (const auto* waiting : {&watched_, &slow_})
    for (const auto& each : *waiting)
      if (each.operation->awaited())
        longest = std::max<std::chrono::nanoseconds>(longest, now - each.since);
  return longest;
}

} // namespace farandole
