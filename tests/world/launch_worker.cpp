#include "tests/world/launch_worker.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "tests/world/launch_sink.hpp"
#include "tests/world/simulation.hpp"

namespace farandole::testing {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::uint64_t worker_stream = 502;

class worker_state {
public:
  using self_ptr = caf::stateful_actor<worker_state>*;
  static inline const char* name = "simulated worker";

  void begin(self_ptr self, const slot_spec& spec, std::shared_ptr<worker_process> process,
             std::shared_ptr<output_sink> sink, slot_owner_actor owner, std::uint64_t seed) {
    self_ = self;
    spec_ = spec;
    process_ = std::move(process);
    sink_ = std::move(sink);
    owner_ = std::move(owner);
    draw_ = dice(seed, worker_stream, static_cast<std::uint64_t>(spec.slot));
  }

  void start() {
    const auto& plan = process_->plan;
    if (plan.cannot_start) {
      constexpr int not_found_code = 127;
      caf::anon_send(owner_, slot_ended{spec_.slot, {not_found_code, 0}, "there is no such program"});
      caf::anon_send(owner_, slot_finished{spec_.slot, {}});
      return self_->quit();
    }
    process_->runs = true;
    if (spec_.started)
      spec_.started(1000 + spec_.slot);
    self_->delayed_send(self_, plan.lasts, ended_atom::value);
    for (int stream : {0, 1})
      print(stream);
  }

  void print(int stream) {
    auto& written = process_->written[stream];
    if (!process_->runs || waiting_[stream])
      return;
    if (sink_->full(stream)) {
      waiting_[stream] = true;
      sink_->when_there_is_room(stream, [self = caf::actor_cast<caf::actor>(self_), stream] {
        caf::anon_send(self, room_atom::value, stream);
      });
      return;
    }
    const auto rest = process_->plan.prints_for_ever ? chunk_bytes : process_->plan.bytes - written;
    if (rest == 0)
      return;
    const auto bytes = std::min<std::size_t>(1 + draw_.below(chunk_bytes), rest);
    sink_->write(stream, pattern(spec_.slot, stream, std::exchange(written, written + bytes), bytes));
    self_->delayed_send(self_, microseconds(draw_.below(2000)), output_atom::value, stream);
  }

  void has_room(int stream) {
    waiting_[stream] = false;
    print(stream);
  }

  void signal(int number) {
    if (!process_->runs || (number == SIGTERM && process_->plan.ignores_sigterm))
      return;
    process_->signalled = true;
    end({128 + number, number});
  }

  // A worker that prints waits for its output to be taken.
  void time_is_up() {
    const auto& plan = process_->plan;
    if (!process_->runs || plan.prints_for_ever)
      return;
    if (process_->written[0] < plan.bytes || process_->written[1] < plan.bytes)
      return self_->delayed_send(self_, milliseconds(50), ended_atom::value);
    end({plan.code, 0});
  }

  void end(process_end exit_status) {
    process_->runs = false;
    caf::anon_send(owner_, slot_ended{spec_.slot, std::move(exit_status), {}});
    self_->delayed_send(self_, microseconds(draw_.below(5000)), overdue_atom::value);
  }

  void finish() {
    for (int stream = 0; stream < output_streams; ++stream)
      sink_->end(stream);
    caf::anon_send(owner_, slot_finished{spec_.slot, sink_->last_lines()});
    self_->quit();
  }

private:
  self_ptr self_ = nullptr;
  slot_spec spec_;
  std::shared_ptr<worker_process> process_;
  std::shared_ptr<output_sink> sink_;
  slot_owner_actor owner_;
  dice draw_{0};
  bool waiting_[2] = {}; ///< for room in the sink
};

} // namespace

caf::actor simulated_slot(caf::actor_system& system, const slot_spec& spec,
                          std::shared_ptr<worker_process> process, std::shared_ptr<output_sink> sink,
                          slot_owner_actor owner, std::uint64_t seed) {
  return system.spawn([=](caf::stateful_actor<worker_state>* self) {
    auto& state = self->state;
    state.begin(self, spec, process, sink, owner, seed);
    return caf::behavior{
        [&state](start_atom) { state.start(); },
        [&state](signal_atom, int number) { state.signal(number); },
        [](const slot_input&) {},
        [&state](ended_atom) { state.time_is_up(); },
        [&state](output_atom, int stream) { state.print(stream); },
        [&state](room_atom, int stream) { state.has_room(stream); },
        [&state](overdue_atom) { state.finish(); },
    };
  });
}

} // namespace farandole::testing
