#include "bindings/kernels/tensorflow/step.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace farandole::tensorflow {
namespace {

/// The last steps that failed, for nodes that start a moment later. A few are enough, because steps fail rarely.
class failures {
public:
  void add(std::int64_t step) { last_[next_++ % last_.size()] = {step, true}; }

  bool has(std::int64_t step) const {
    return std::any_of(last_.begin(), last_.end(),
                       [&](const entry& entry) { return entry.used && entry.step == step; });
  }

private:
  struct entry {
    std::int64_t step = 0;
    bool used = false;
  };
  std::array<entry, 16> last_{};
  std::size_t next_ = 0;
};

struct registry {
  std::mutex guard;
  std::unordered_map<std::int64_t, std::vector<in_flight*>> flights;
  failures failed;
};

// Leaked on purpose: kernels run until the process has ended.
registry& all() {
  static auto* const only = new registry;
  return *only;
}

} // namespace

bool enter_step(std::int64_t step, in_flight* flight) {
  auto& registry_state = all();
  const std::lock_guard lock(registry_state.guard);
  if (registry_state.failed.has(step))
    return false;
  registry_state.flights[step].push_back(flight);
  return true;
}

bool leave_step(std::int64_t step, in_flight* flight) {
  auto& registry_state = all();
  const std::lock_guard lock(registry_state.guard);
  const auto found = registry_state.flights.find(step);
  if (found == registry_state.flights.end())
    return false;
  auto& flights = found->second;
  const auto own = std::find(flights.begin(), flights.end(), flight);
  if (own == flights.end())
    return false;
  *own = flights.back();
  flights.pop_back();
  if (flights.empty())
    registry_state.flights.erase(found);
  return true;
}

void fail_step(std::int64_t step) {
  std::vector<in_flight*> others;
  {
    auto& registry_state = all();
    const std::lock_guard lock(registry_state.guard);
    registry_state.failed.add(step);
    if (const auto found = registry_state.flights.find(step); found != registry_state.flights.end()) {
      others.swap(found->second);
      registry_state.flights.erase(found);
    }
    for (auto* other : others)
      other->hold();
  }
  // Without the lock: TensorFlow may continue the graph on this thread.
  for (auto* other : others)
    other->give_up();
}

} // namespace farandole::tensorflow
