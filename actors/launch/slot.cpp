#include "actors/launch/slot.hpp"

#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "actors/launch/program.hpp"

namespace farandole {

slot_actor::behavior_type slot(slot_actor::stateful_pointer<slot_state> self, const slot_spec& spec,
                               const std::shared_ptr<output_sink>& sink, const slot_owner_actor& owner) {
  return self->state.begin(spec, sink, owner);
}

slot_maker real_slots(caf::actor_system& system) {
  return [&system](const slot_spec& spec, const std::shared_ptr<output_sink>& sink,
                   const slot_owner_actor& owner) -> slot_actor {
    return system.spawn(slot, spec, sink, owner);
  };
}

slot_actor::behavior_type slot_state::begin(slot_spec spec, std::shared_ptr<output_sink> sink,
                                            slot_owner_actor owner) {
  spec_ = std::move(spec);
  sink_ = std::move(sink);
  owner_ = std::move(owner);
  return {
      [this](start_atom) { start(); },
      [this](signal_atom, int number) { send_signal(number); },
      [this](const slot_input& input) {
        input_of(input.stream).queue.push_back(input);
        write_input(input.stream);
      },
      [this](ended_atom) { ended(); },
      [this](output_atom, int number) { read(number); },
      [this](writable_atom, int stream) { write_input(stream); },
      [this](room_atom, int number) { resume(number); },
      [this](overdue_atom) { overdue(); },
  };
}

/// If the actor is destroyed while its process runs (the actor system is shutting down), no process may outlive it.
slot_state::~slot_state() {
  if (process_.id < 0)
    return;
  process_.signal(SIGKILL);
  process_.reap(spec_.process.keeper);
}

void slot_state::start() {
  auto started = start_process(spec_.process);
  if (!started) {
    for (int stream = 0; stream < output_streams; ++stream)
      sink_->end(stream);
    self_->send(owner_,
                slot_ended{spec_.slot, {start_failure_code(started.error()), 0}, started.error().text});
    self_->send(owner_, slot_finished{spec_.slot, {}});
    self_->quit();
    return;
  }
  process_ = std::move(*started);
  if (process_.input)
    open_input(std::move(process_.input));
  if (spec_.started)
    spec_.started(process_.id);
  const auto me = caf::actor_cast<slot_actor>(self_);
  watched_ = loop_of(self_->system()).watch(std::move(process_.watched), [me](watch_event) {
    caf::anon_send(me, ended_atom::value);
  });
  open(0, std::move(process_.output));
  open(1, std::move(process_.errors));
  if (process_.channel)
    open(channel_stream, std::move(process_.channel));
}

void slot_state::open(int number, descriptor pipe) {
  const auto me = caf::actor_cast<slot_actor>(self_);
  streams_[number].watch = loop_of(self_->system()).watch(std::move(pipe), [me, number](watch_event event) {
    if (event == watch_event::writable)
      caf::anon_send(me, writable_atom::value, number);
    else
      caf::anon_send(me, output_atom::value, number);
  });
}

void slot_state::open_input(descriptor pipe) {
  const auto me = caf::actor_cast<slot_actor>(self_);
  // If the process has closed the pipe, the next write fails.
  standard_input_ = loop_of(self_->system()).watch(std::move(pipe), [me](watch_event) {
    caf::anon_send(me, writable_atom::value, standard_input_stream);
  });
  if (!spec_.input.empty())
    input_of(standard_input_stream).queue.push_back({spec_.input, {}, standard_input_stream});
  write_input(standard_input_stream);
}

void slot_state::write_input(int stream) {
  auto& watch = stream == channel_stream ? streams_[channel_stream].watch : standard_input_;
  auto& [queue, written_bytes] = input_of(stream);
  while (!queue.empty()) {
    if (!watch)
      return drop_input(stream);
    const auto& input = queue.front();
    const auto rest = std::string_view(input.bytes).substr(written_bytes);
    const auto count = rest.empty() ? 0 : ::write(watch.get(), rest.data(), rest.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0 && errno == EAGAIN)
      break;
    if (count < 0) {
      if (stream == standard_input_stream)
        watch.stop();
      return drop_input(stream);
    }
    written_bytes += static_cast<std::size_t>(count);
    if (written_bytes < input.bytes.size())
      continue;
    if (input.owner)
      self_->send(input.owner, slot_input_taken{spec_.slot, stream, input.bytes.size()});
    if (input.ended)
      watch.stop();
    queue.pop_front();
    written_bytes = 0;
  }
  if (stream == channel_stream)
    watch.want(!streams_[channel_stream].paused, !queue.empty());
  else
    watch.want(false, !queue.empty());
}

/// The process does not read this stream any more.
void slot_state::drop_input(int stream) {
  for (const auto& input : std::exchange(input_of(stream), {}).queue)
    if (input.owner)
      self_->send(input.owner, slot_input_taken{spec_.slot, stream, input.bytes.size()});
}

void slot_state::send_signal(int number) {
  if (process_.id > 0 && !has_ended_)
    process_.signal(number);
}

void slot_state::ended() {
  if (has_ended_)
    return;
  has_ended_ = true;
  watched_.stop();
  standard_input_.stop();
  drop_input(standard_input_stream);
  self_->send(owner_, slot_ended{spec_.slot, process_.ending(), {}});
  self_->delayed_send(self_, spec_.linger, overdue_atom::value);
  finish_if_silent();
}

void slot_state::read(int number) {
  auto& stream = streams_[number];
  if (!stream.watch || stream.paused)
    return;
  // The number of reads is bounded, so that a worker with much output does not occupy the loop.
  constexpr int most_reads = 4;
  char buffer[1 << 15];
  for (int turn = 0; turn < most_reads && !sink_->full(number); ++turn) {
    const auto size = stream.rest_bytes ? std::min(sizeof buffer, *stream.rest_bytes) : sizeof buffer;
    const auto count = size == 0 ? 0 : ::read(stream.watch.get(), buffer, size);
    if (count > 0) {
      sink_->write(number, {buffer, static_cast<std::size_t>(count)});
      if (stream.rest_bytes)
        *stream.rest_bytes -= static_cast<std::size_t>(count);
      continue;
    }
    if (count < 0 && (errno == EINTR || (errno == EAGAIN && !stream.rest_bytes)))
      break;
    close(number);
    finish_if_silent();
    return;
  }
  if (sink_->full(number))
    pause(number);
  else if (stream.rest_bytes)
    caf::anon_send(caf::actor_cast<slot_actor>(self_), output_atom::value, number);
}

void slot_state::close(int number) {
  auto& stream = streams_[number];
  if (!stream.watch)
    return;
  sink_->end(number);
  stream.watch.stop();
  if (number == channel_stream)
    drop_input(channel_stream);
}

void slot_state::pause(int number) {
  streams_[number].paused = true;
  streams_[number].watch.want(false, number == channel_stream && has_input(number));
  const auto me = caf::actor_cast<slot_actor>(self_);
  sink_->when_there_is_room(number, [me, number] { caf::anon_send(me, room_atom::value, number); });
}

void slot_state::resume(int number) {
  auto& stream = streams_[number];
  stream.paused = false;
  if (!stream.watch)
    return;
  stream.watch.want(true, number == channel_stream && has_input(number));
  read(number);
}

// Processes that the worker has started may hold the pipes. Those of its group are killed; others may go on writing,
// so only the bytes that are in the pipes now are still forwarded.
void slot_state::overdue() {
  if (process_.id < 0)
    return;
  process_.signal(SIGKILL);
  for (int number = 0; number < output_streams; ++number) {
    auto& stream = streams_[number];
    if (!stream.watch)
      continue;
    int bytes = 0;
    stream.rest_bytes =
        ::ioctl(stream.watch.get(), FIONREAD, &bytes) == 0 ? static_cast<std::size_t>(bytes) : 0;
    read(number);
  }
}

void slot_state::finish_if_silent() {
  if (process_.id < 0 || !has_ended_ ||
      std::ranges::any_of(streams_, [](const auto& stream) { return static_cast<bool>(stream.watch); }))
    return;
  drop_input(channel_stream);
  // The process is still a zombie, so the id of its process group cannot have been reused.
  process_.signal(SIGKILL);
  process_.reap(spec_.process.keeper);
  self_->send(owner_, slot_finished{spec_.slot, sink_->last_lines()});
  self_->quit();
}

} // namespace farandole
