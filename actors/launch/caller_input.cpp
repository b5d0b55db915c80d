#include "actors/launch/caller_input.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "actors/launch/caller_output.hpp"

namespace farandole {

caller_input_actor::behavior_type caller_input(caller_input_actor::stateful_pointer<caller_input_state> self,
                                               int socket, const std::function<void()>& ended) {
  return self->state.begin(descriptor{::fcntl(socket, F_DUPFD_CLOEXEC, 3)}, ended);
}

caller_input_actor::behavior_type caller_input_state::begin(descriptor socket, std::function<void()> ended) {
  ended_ = std::move(ended);
  const auto me = caf::actor_cast<caller_input_actor>(self_);
  watch_ = loop_of(self_->system()).watch(std::move(socket), [me](watch_event) {
    caf::anon_send(me, output_atom::value);
  });
  self_->set_down_handler([this](const caf::down_msg& down) { forget(down); });
  return {
      [this](const slot_input_taken& event) { taken(event.slot, event.bytes); },
      [this](const slot_made& event) {
        slots_[event.number].slot = event.slot;
        self_->monitor(event.slot);
      },
      [this](const watch_size& request) { size_ = request; },
      [this](close_atom) {
        watch_.stop();
        self_->quit();
      },
      [this](output_atom) { read(); },
  };
}

void caller_input_state::read() {
  constexpr int most_reads = 16;
  char buffer[1 << 16];
  for (int turn = 0; turn < most_reads && watch_ && untaken_bytes_ < most_untaken_bytes; ++turn) {
    const auto count = ::read(watch_.get(), buffer, sizeof buffer);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
      break;
    if (count <= 0)
      return stop();
    received_.append(buffer, static_cast<std::size_t>(count));
    if (!forward_frames())
      return stop();
  }
  if (watch_)
    watch_.want(untaken_bytes_ < most_untaken_bytes, false);
}

bool caller_input_state::forward_frames() {
  std::string_view rest = received_;
  while (rest.size() >= frame_header::size_bytes) {
    const auto header = frame_header::decoded(rest);
    if (header.length == 0 || header.length > caller_output::most_frame_bytes)
      return false;
    if (rest.size() < frame_header::size_bytes + header.length)
      break;
    const auto body = rest.substr(frame_header::size_bytes, header.length);
    if (header.slot == caller_output::event_slot) {
      if (!forward_size(body))
        return false;
    } else {
      forward_input(header.slot, body);
    }
    rest.remove_prefix(frame_header::size_bytes + header.length);
  }
  received_.erase(0, received_.size() - rest.size());
  return true;
}

bool caller_input_state::forward_size(std::string_view body) {
  const auto count = workers_wanted_in(body);
  if (!size_.driver || !count || *count > static_cast<std::uint32_t>(size_.most))
    return false;
  self_->send(size_.driver, workers_wanted{static_cast<std::int32_t>(*count)});
  return true;
}

/// Input for a worker that has ended is dropped; its end is reported as an event.
void caller_input_state::forward_input(std::uint32_t slot, std::string_view body) {
  const auto found = slots_.find(static_cast<std::int32_t>(slot));
  if (found == slots_.end())
    return;
  found->second.untaken_bytes += body.size();
  untaken_bytes_ += body.size();
  self_->send(found->second.slot, slot_input{std::string(body), caf::actor_cast<caller_input_actor>(self_)});
}

void caller_input_state::taken(std::int32_t number, std::size_t bytes) {
  const auto found = slots_.find(number);
  if (found == slots_.end())
    return;
  bytes = std::min(bytes, found->second.untaken_bytes);
  found->second.untaken_bytes -= bytes;
  untaken_bytes_ -= bytes;
  if (watch_ && untaken_bytes_ < most_untaken_bytes)
    watch_.want(true, false);
}

/// A slot that has ended takes no input, also not that which is on its way to it. Its number is never used again.
void caller_input_state::forget(const caf::down_msg& down) {
  const auto found = std::ranges::find_if(
      slots_, [&](const auto& entry) { return entry.second.slot.address() == down.source; });
  if (found == slots_.end())
    return;
  taken(found->first, found->second.untaken_bytes);
  slots_.erase(found);
}

void caller_input_state::stop() {
  watch_.stop();
  if (ended_)
    std::exchange(ended_, nullptr)();
}

} // namespace farandole
