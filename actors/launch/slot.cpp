#include "actors/launch/slot.hpp"

#include <signal.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <ctime>

#include "actors/launch/program.hpp"

namespace farandole {

slot_actor::behavior_type slot(slot_actor::stateful_pointer<slot_state> self, const slot_spec& spec,
                               output_writer* writer, const slot_owner_actor& driver) {
  return self->state.begin(spec, writer, driver);
}

slot_actor::behavior_type slot_state::begin(slot_spec spec, output_writer* writer, slot_owner_actor driver) {
  spec_ = std::move(spec);
  writer_ = writer;
  driver_ = std::move(driver);
  return {
      [this](start_atom) { start(); }, [this](signal_atom, int number) { send_signal(number); },
      [this](ended_atom) { ended(); }, [this](output_atom, int number) { read(number); },
      [this](room_atom) { resume(); }, [this](overdue_atom) { finish(); },
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
    self_->send(driver_,
                slot_ended{spec_.slot, {start_failure_code(started.error()), 0}, started.error().text});
    self_->send(driver_, slot_finished{spec_.slot, {}});
    self_->quit();
    return;
  }
  process_ = std::move(*started);
  if (spec_.started)
    spec_.started(process_.id);
  const auto me = caf::actor_cast<slot_actor>(self_);
  watched_ = loop_of(self_->system()).watch(std::move(process_.watched), [me](watch_event) {
    caf::anon_send(me, ended_atom::value);
  });
  open(0, std::move(process_.output));
  open(1, std::move(process_.errors));
}

void slot_state::open(int number, descriptor pipe) {
  auto& stream = streams_[number];
  stream.prefix = output_prefix("[" + spec_.label + (number == 0 ? "]<stdout>:" : "]<stderr>:"));
  stream.target = number == 0 ? STDOUT_FILENO : STDERR_FILENO;
  stream.file = spec_.files[number];
  const auto me = caf::actor_cast<slot_actor>(self_);
  stream.watch = loop_of(self_->system()).watch(std::move(pipe), [me, number](watch_event) {
    caf::anon_send(me, output_atom::value, number);
  });
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
  self_->send(driver_, slot_ended{spec_.slot, process_.ending(), {}});
  self_->delayed_send(self_, spec_.linger, overdue_atom::value);
  finish_if_silent();
}

void slot_state::read(int number) {
  auto& stream = streams_[number];
  if (!stream.watch || paused_)
    return;
  // The number of reads is bounded, so that a worker with much output does not occupy the loop.
  constexpr int most_reads = 4;
  char buffer[1 << 15];
  for (int turn = 0; turn < most_reads; ++turn) {
    const auto count = ::read(stream.watch.get(), buffer, sizeof buffer);
    if (count > 0) {
      if (number == 1)
        last_errors_.take({buffer, static_cast<std::size_t>(count)});
      pass_on(stream, stream.prefix.take({buffer, static_cast<std::size_t>(count)}, stamp()));
      continue;
    }
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
      break;
    close(number);
    finish_if_silent();
    return;
  }
  if (writer_->full())
    pause();
}

void slot_state::pass_on(stream& from, std::string text) {
  if (from.file >= 0)
    writer_->write(from.file, text);
  writer_->write(from.target, std::move(text));
}

void slot_state::close(int number) {
  auto& stream = streams_[number];
  if (!stream.watch)
    return;
  pass_on(stream, stream.prefix.end(stamp()));
  stream.watch.stop();
}

void slot_state::pause() {
  paused_ = true;
  for (auto& stream : streams_)
    stream.watch.want(false, false);
  const auto me = caf::actor_cast<slot_actor>(self_);
  writer_->when_there_is_room([me] { caf::anon_send(me, room_atom::value); });
}

void slot_state::resume() {
  paused_ = false;
  for (int number : {0, 1}) {
    streams_[number].watch.want(true, false);
    read(number);
  }
}

void slot_state::finish_if_silent() {
  if (has_ended_ && !streams_[0].watch && !streams_[1].watch)
    finish();
}

void slot_state::finish() {
  if (process_.id < 0)
    return;
  assert(has_ended_);
  // The process is still a zombie, so the id of its process group cannot have been reused.
  process_.signal(SIGKILL);
  process_.reap(spec_.process.keeper);
  for (int number : {0, 1}) {
    paused_ = false;
    read(number);
    close(number);
  }
  self_->send(driver_, slot_finished{spec_.slot, last_errors_.lines()});
  self_->quit();
}

std::string slot_state::stamp() const {
  if (!spec_.timestamp)
    return {};
  const std::time_t current_time = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&current_time, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%a %b %e %H:%M:%S %Y", &parts)};
}

} // namespace farandole
