#include "bindings/kernels/tensorflow/step.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace farandole::tensorflow {
namespace {

/// The last steps that failed, for nodes that start a moment later: a few are enough, for steps fail rarely.
class failures {
public:
  void add(std::int64_t step) { last_[next_++ % last_.size()] = {step, true}; }

  bool has(std::int64_t step) const {
    return std::any_of(last_.begin(), last_.end(),
                       [&](const entry& each) { return each.used && each.step == step; });
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

bool enter_step(std::int64_t step, in_flight* what) {
  auto& known = all();
  const std::lock_guard lock(known.guard);
  if (known.failed.has(step))
    return false;
  known.flights[step].push_back(what);
  return true;
}

bool leave_step(std::int64_t step, in_flight* what) {
  auto& known = all();
  const std::lock_guard lock(known.guard);
  const auto found = known.flights.find(step);
  if (found == known.flights.end())
    return false;
  auto& flights = found->second;
  const auto mine = std::find(flights.begin(), flights.end(), what);
  if (mine == flights.end())
    return false;
  *mine = flights.back();
  flights.pop_back();
  if (flights.empty())
    known.flights.erase(found);
  return true;
}

void fail_step(std::int64_t step) {
  std::vector<in_flight*> others;
  {
    auto& known = all();
    const std::lock_guard lock(known.guard);
    known.failed.add(step);
    if (const auto found = known.flights.find(step); found != known.flights.end()) {
      others.swap(found->second);
      known.flights.erase(found);
    }
    for (auto* each : others)
      each->hold();
  }
  // Without the lock: TensorFlow may go on right here.
  for (auto* each : others)
    each->give_up();
}

} // namespace farandole::tensorflow
