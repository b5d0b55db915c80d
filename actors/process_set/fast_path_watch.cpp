#include "actors/process_set/fast_path_watch.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

void fast_path_watch::drop_finished() {
  std::erase_if(slow_, [](const fast_path_operation& watched_operation) {
    return !watched_operation.operation->awaited();
  });
}

void fast_path_watch::add_slow(operation_state_ptr operation, time since) {
  drop_finished();
  slow_.push_back({std::move(operation), since});
}

void fast_path_watch::look(const std::function<void(operation_state_ptr)>& move) {
  std::erase_if(watched_, [&move](fast_path_operation& watched_operation) {
    auto& operation = *watched_operation.operation;
    if (move && operation.can_move() && !operation.handed_on.exchange(true, std::memory_order_acq_rel))
      move(watched_operation.operation);
    return operation.try_settle(operation_state::runner::nobody) || !is_on_fast_path(operation.now());
  });
}

// Only reads the fast path: the waiting caller or look() settles the operations.
std::vector<stalled_tensor> fast_path_watch::stalled(time current, std::chrono::nanoseconds limit,
                                                     std::span<const std::int32_t> ranks) {
  drop_finished();
  std::vector<stalled_tensor> all;
  const auto add = [&](const fast_path_operation& watched_operation) {
    const auto waited = current - watched_operation.since;
    const auto need = watched_operation.operation->awaited();
    if (waited <= limit || !need)
      return;
    auto& taken_slot = *watched_operation.operation->taken_slot;
    stalled_tensor found{
        watched_operation.operation->name, waited,
        taken_slot.fast_path().missing(taken_slot.cell(), watched_operation.operation->round, *need)};
    if (!ranks.empty())
      for (auto& rank : found.missing)
        rank = ranks[static_cast<std::size_t>(rank)];
    if (!found.missing.empty())
      all.push_back(std::move(found));
  };
  std::for_each(watched_.begin(), watched_.end(), add);
  for (const auto& entry : slow_) {
    const bool watched = std::any_of(watched_.begin(), watched_.end(), [&entry](const auto& other) {
      return other.operation.get() == entry.operation.get();
    });
    if (!watched)
      add(entry);
  }
  return all;
}

std::chrono::nanoseconds fast_path_watch::longest_wait(time current) const {
  std::chrono::nanoseconds longest{0};
  for (const auto* waiting : {&watched_, &slow_})
    for (const auto& watched_operation : *waiting)
      if (watched_operation.operation->awaited())
        longest = std::max<std::chrono::nanoseconds>(longest, current - watched_operation.since);
  return longest;
}

} // namespace farandole
