#include "tests/world/launch_sink.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace farandole::testing {

std::string_view pattern(std::int32_t slot, int stream, std::size_t position, std::size_t bytes) {
  constexpr std::size_t period = 23; // not a divisor of the sizes of chunks
  static const std::string all = [] {
    std::string text(chunk_bytes + period, ' ');
    for (std::size_t i = 0; i < text.size(); ++i)
      text[i] = static_cast<char>('a' + i % period);
    return text;
  }();
  assert(bytes <= chunk_bytes);
  return std::string_view(all).substr((position + static_cast<std::size_t>(7 * slot + stream)) % period,
                                      bytes);
}

void launch_sink::write(int stream, std::string_view bytes) {
  if (ended_[stream])
    problem_("slot " + std::to_string(slot_) + " wrote to stream " + std::to_string(stream) +
             " after its end");
  if (bytes != pattern(slot_, stream, received_[stream], bytes.size()))
    problem_("output of slot " + std::to_string(slot_) + " is lost, repeated or out of order after byte " +
             std::to_string(received_[stream]) + " of stream " + std::to_string(stream));
  received_[stream] += bytes.size();
  pending_[stream] += bytes.size();
  most_pending_ = std::max(most_pending_, pending_[stream]);
  arrived_();
}

void launch_sink::when_there_is_room(int stream, std::function<void()> action) {
  if (!full(stream))
    return action();
  room_[stream] = std::move(action);
}

void launch_sink::read(std::size_t bytes) {
  for (int stream = 0; stream < output_streams; ++stream) {
    pending_[stream] -= std::min(bytes, pending_[stream]);
    if (room_[stream] && !full(stream))
      std::exchange(room_[stream], nullptr)();
  }
}

} // namespace farandole::testing
