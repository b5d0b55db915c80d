#include "actors/process_set/stall_watch.hpp"

#include <algorithm>
#include <utility>

#include "actors/interfaces/generation.hpp"
#include "actors/interfaces/stalls.hpp"

namespace farandole {

namespace {

// A warning comes at most this much later than the time in the settings.
constexpr std::chrono::seconds longest_period{15};

} // namespace

void stall_watch_state::begin(stall_watch_setup setup) {
  setup_ = std::move(setup);
  self->delayed_send(self, setup_.rules.period(longest_period), tick_atom::value);
}

void stall_watch_state::look() {
  const auto period = setup_.rules.period(longest_period);
  self->delayed_send(self, period, tick_atom::value);
  const auto ask = [&](const auto& entry) {
    if (entry)
      self->request(entry, period, stalled_atom::value, setup_.rules.warning)
          .then([this](const stall_list& waiting) { judge(waiting); }, [](const caf::error&) {});
  };
  ask(setup_.negotiator);
  ask(setup_.client);
}

void stall_watch_state::judge(const stall_list& waiting) {
  const auto current_time =
      std::chrono::duration_cast<std::chrono::nanoseconds>(self->clock().now().time_since_epoch());
  auto found = setup_.rules.judge(waiting.stalls, current_time);
  if (!found.end.empty())
    self->send(setup_.member, generation_broken{std::move(found.end), error_kind::timed_out});
  else if (!found.warning.empty() && setup_.log)
    setup_.log->warning(found.warning);
}

stall_watch_actor::behavior_type stall_watch(stall_watch_actor::stateful_pointer<stall_watch_state> self,
                                             stall_watch_setup setup) {
  auto& state = self->state;
  state.begin(std::move(setup));
  return {[&state](tick_atom) { state.look(); }};
}

} // namespace farandole
