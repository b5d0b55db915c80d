// The output of a simulated worker where it arrives at the launcher. The bytes follow a pattern, so a byte that is
// lost, repeated or out of order is noticed. A slow reader takes the bytes away bit by bit.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "actors/launch/output_sink.hpp"
#include "messages/wire/placement.hpp"

namespace farandole::testing {

/// The largest number of bytes that a worker writes at once: as many as the real slot reads.
inline constexpr std::size_t chunk_bytes = std::size_t{32} << 10;

/// The bytes from this position on of a stream of a worker, at most chunk_bytes.
std::string_view pattern(std::int32_t slot, int stream, std::size_t position, std::size_t bytes);

class launch_sink final : public output_sink {
public:
  /// `held_bytes` of a stream are held before it counts as full. Calls `arrived` when there are bytes to read.
  launch_sink(std::int32_t slot, std::size_t held_bytes, std::function<void()> arrived,
              std::function<void(std::string)> problem)
      : slot_(slot), held_bytes_(held_bytes), arrived_(std::move(arrived)), problem_(std::move(problem)) {}

  void write(int stream, std::string_view bytes) override;
  void end(int stream) override { ended_[stream] = true; }
  bool full(int stream) const override { return pending_[stream] >= held_bytes_; }
  void when_there_is_room(int stream, std::function<void()> action) override;
  std::deque<std::string> last_lines() const override { return {}; }

  /// The reader takes up to this many bytes of each stream.
  void read(std::size_t bytes);
  bool empty() const { return pending_[0] + pending_[1] + pending_[2] == 0; }
  std::size_t received(int stream) const { return received_[stream]; }
  std::size_t most_pending() const { return most_pending_; }
  bool ended(int stream) const { return ended_[stream]; }

private:
  std::int32_t slot_;
  std::size_t held_bytes_;
  std::function<void()> arrived_;
  std::function<void(std::string)> problem_;
  std::size_t received_[output_streams] = {};
  std::size_t pending_[output_streams] = {};
  std::size_t most_pending_ = 0;
  bool ended_[output_streams] = {};
  std::function<void()> room_[output_streams];
};

} // namespace farandole::testing
