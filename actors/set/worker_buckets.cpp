// What a worker keeps back until it is ready for all of its bucket.
#include <utility>

#include "actors/set/worker.hpp"

namespace farandole {

namespace {

std::chrono::nanoseconds since_start(caf::actor_clock::time_point when) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch());
}

} // namespace

void worker_state::ask(std::uint32_t id, requests& out) {
  // It is asked for again, so what was asked before has been answered some other way.
  if (shelf_.holds(id))
    let_go(shelf_.let_go(id), out);
  if (!shelf_.takes(id))
    out.ids.push_back(id);
  else if (const auto whole = shelf_.put(id, since_start(self->clock().now())))
    out.buckets.push_back(*whole);
}

void worker_state::let_go(const bucket_shelf::ids& ids, requests& out) {
  out.ids.insert(out.ids.end(), ids.begin(), ids.end());
}

void worker_state::dissolve(const std::vector<std::uint32_t>& buckets) {
  requests out;
  for (auto gone : buckets)
    let_go(shelf_.dissolve(gone), out);
  send(std::move(out));
}

void worker_state::plan_buckets(const std::vector<bucket>& buckets) {
  requests out;
  for (const auto& planned : buckets)
    let_go(shelf_.add(planned), out);
  send(std::move(out));
}

void worker_state::tick() {
  const auto now = self->clock().now();
  if (!next_tick_ || now < *next_tick_)
    return;
  next_tick_.reset();
  requests out;
  if (!over_)
    let_go(shelf_.overdue(since_start(now)), out);
  send(std::move(out));
  arm();
}

// A tick that is set stays: what came later waits longer, or the tick looks again.
void worker_state::arm() {
  const auto wake = shelf_.wake_at();
  if (!wake || over_)
    return;
  const caf::actor_clock::time_point when{
      std::chrono::duration_cast<caf::actor_clock::time_point::duration>(*wake)};
  if (next_tick_ && *next_tick_ <= when)
    return;
  next_tick_ = when;
  self->delayed_send(self, when - self->clock().now(), tick_atom::value);
}

} // namespace farandole
