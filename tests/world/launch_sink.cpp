#include "tests/world/launch_sink.hpp"

#include <algorithm>
#include <utility>

namespace farandole::testing {

char pattern(std::int32_t slot, int stream, std::size_t position) {
  constexpr std::size_t period = 23; // not a divisor of the sizes of chunks
  return static_cast<char>('a' + (position + static_cast<std::size_t>(7 * slot + stream)) % period);
}

void launch_sink::write(int stream, std::string_view bytes) {
  if (ended_[stream])
    problem_("slot " + std::to_string(slot_) + " wrote to stream " + std::to_string(stream) +
             " after its end");
  for (const char byte : bytes)
    if (byte != pattern(slot_, stream, received_[stream]++)) {
      problem_("output of slot " + std::to_string(slot_) + " is lost, repeated or out of order at byte " +
               std::to_string(received_[stream] - 1) + " of stream " + std::to_string(stream));
      break;
    }
  pending_[stream] += bytes.size();
  most_pending_ = std::max(most_pending_, pending_[stream]);
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
