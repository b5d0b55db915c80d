#include "actors/member/heartbeats.hpp"

#include <algorithm>
#include <utility>

#include "actors/event_loop/clock.hpp"
#include "actors/interfaces/message_router.hpp"

namespace farandole {

namespace {

constexpr std::chrono::seconds time_between_clock_rounds{30};

} // namespace

void heartbeats_state::begin(heartbeats_setup setup) {
  setup_ = std::move(setup);
  monitor_ = heartbeat_monitor(setup_.rules.period());
  const auto& shared = *setup_.shared;
  const auto below = shared.tree->children(shared.rank);
  neighbours_.assign(below.begin(), below.end());
  above_ = shared.tree->parent(shared.rank);
  if (above_ >= 0)
    neighbours_.push_back(above_);
  clock_ = clock_exchange(above_);
  beat();
}

void heartbeats_state::receive_heartbeat(const envelope& message) {
  monitor_.beat(message.source());
  if (auto decoded = decode_heartbeat(message))
    monitor_.report(message.source(), std::move(decoded->silent));
}

void heartbeats_state::receive_clock(const envelope& message) {
  const auto received = time();
  const auto reading = decode_clock_reading(message);
  if (!reading)
    return;
  if (!reading->is_answer)
    return send_clock(message.source(), clock_exchange::answer(*reading, received, time()));
  if (message.source() != above_)
    return;
  if (const auto question = clock_.answered(*reading, received))
    return send_clock(above_, *question);
  if (const auto& clock = clock_.result()) {
    setup_.shared->clock_above.set(*clock);
    setup_.shared->recorder->describe(*clock);
  }
}

// Neighbours are watched only from now on, because a link may take long to open without any fault of the peer.
void heartbeats_state::connected() {
  for (const auto rank : neighbours_)
    monitor_.watch(rank);
  look_at_words();
  if (above_ < 0 || shares_memory_with(above_))
    return;
  next_round_ = now(self);
  measure_clock();
}

/// The drift of a clock changes slowly, so rare rounds are enough.
void heartbeats_state::measure_clock() {
  if (now(self) < next_round_)
    return;
  next_round_ += time_between_clock_rounds;
  send_clock(above_, clock_.begin_round(time()));
}

void heartbeats_state::send_clock(std::int32_t neighbour, const clock_reading& reading) {
  const address from{setup_.shared->generation, 0, setup_.shared->rank};
  caf::anon_send(setup_.router, neighbour_message{neighbour, encode(from, reading)});
}

void heartbeats_state::beat() {
  self->delayed_send(self, setup_.rules.period(), tick_atom::value);
  monitor_.look(now(self));
  look_at_words();
  measure_clock();
  for (const auto rank : neighbours_)
    tell(rank);
  auto silent = monitor_.silent(setup_.rules.minimum());
  if (silent.empty() && !some_are_silent_)
    return;
  some_are_silent_ = !silent.empty();
  setup_.shared->silent.set(silent);
  if (some_are_silent_)
    caf::anon_send(setup_.member, processes_silent{std::move(silent)});
}

void heartbeats_state::look_at_words() {
  if (!words_)
    words_ = setup_.shared->heartbeats.get();
  if (!words_)
    return;
  words_->beat();
  words_->each_other([this](std::int32_t rank, std::uint32_t word) { monitor_.observe(rank, word); });
}

// A neighbour that shares memory reads this process' heartbeat counter there. It still needs a message if this
// process knows of silent members, which may be on other hosts, or if it withdraws such a report.
void heartbeats_state::tell(std::int32_t neighbour) {
  heartbeat news{monitor_.news_for(neighbour, setup_.rules.minimum())};
  const bool withdraws = news.silent.empty() && notified_.erase(neighbour) > 0;
  if (!news.silent.empty())
    notified_.insert(neighbour);
  else if (!withdraws && shares_memory_with(neighbour))
    return;
  const address from{setup_.shared->generation, 0, setup_.shared->rank};
  caf::anon_send(setup_.router, neighbour_message{neighbour, encode(from, news)});
}

bool heartbeats_state::shares_memory_with(std::int32_t rank) const {
  return words_ && std::ranges::find(words_->ranks(), rank) != words_->ranks().end();
}

heartbeats_actor::behavior_type heartbeats(heartbeats_actor::stateful_pointer<heartbeats_state> self,
                                           heartbeats_setup setup) {
  auto& state = self->state;
  state.begin(std::move(setup));
  return {
      [&state](const envelope& message) {
        if (message.kind() == wire::Envelope::Body::CLOCK)
          state.receive_clock(message);
        else
          state.receive_heartbeat(message);
      },
      [&state](ready_atom) { state.connected(); },
      [&state](tick_atom) { state.beat(); },
  };
}

} // namespace farandole
