#include "tests/world/wires.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "actors/event_loop/link_messages.hpp"
#include "tests/world/dice.hpp"
#include "tests/world/simulation.hpp"

namespace farandole::testing {

namespace {

struct wire_state {
  std::deque<envelope> in_flight;
  caf::actor_clock::time_point last{};
};

constexpr std::uint64_t wire_stream = 301;

} // namespace

caf::actor wire(caf::actor_system& system, const set_options& options, std::uint64_t stream, caf::actor taker,
                link_id number, std::function<void(std::string)> problem) {
  return system.spawn([=, draw = dice(options.seed, wire_stream, stream),
                       taker = std::move(taker)](caf::stateful_actor<wire_state>* self) mutable {
    return caf::behavior{
        [=](const envelope& message) mutable {
          auto& line = self->state;
          line.in_flight.push_back(message);
          auto takes = options.latency_us + draw.below(options.jitter_us);
          if (draw.one_in(options.delayed))
            takes += draw.below(options.delay_us);
          const auto current_time = self->clock().now();
          line.last = std::max(line.last, current_time + std::chrono::microseconds(takes));
          self->delayed_send(self, line.last - current_time, tick_atom::value);
        },
        // The message sent first arrives first, whichever tick comes.
        [=](tick_atom) {
          auto arrived = envelope::parse(self->state.in_flight.front().bytes());
          self->state.in_flight.pop_front();
          if (arrived)
            self->send(taker, link_received{number, std::move(*arrived)});
          else
            problem("a message could not be parsed: " + arrived.error().text);
        },
        [](close_atom) {},
        [](cut_atom) {},
    };
  });
}

} // namespace farandole::testing
