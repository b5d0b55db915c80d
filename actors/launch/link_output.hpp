// The sink on an agent's host: sends the output over the link to the launcher. Credit-based flow control: the launcher
// grants a window of bytes for each stream, and renews it as it writes them. Without credit the agent stops reading
// the worker's pipe, and the worker blocks in its own write.
#pragma once

#include <cstddef>
#include <functional>

#include "actors/launch/output_sink.hpp"
#include "messages/wire/placement.hpp"

namespace farandole {

class link_output final : public output_sink {
public:
  /// `send` sends a message to the launcher.
  link_output(process_number number, std::size_t window_bytes, std::function<void(const envelope&)> send);

  void write(int stream, std::string_view bytes) override;
  void end(int stream) override;
  bool full(int stream) const override;
  void when_there_is_room(int stream, std::function<void()> action) override;
  /// Empty: the launcher keeps the last lines.
  std::deque<std::string> last_lines() const override { return {}; }

  /// The launcher has written this many bytes of the stream.
  void consumed(int stream, std::size_t bytes);
  /// The launcher receives nothing any more: drops all further output, so that the process does not wait for credit.
  void release();

private:
  struct flow {
    std::size_t unacknowledged_bytes = 0;
    std::function<void()> room; ///< called when there is credit again; may be empty
  };

  process_number number_;
  std::size_t window_bytes_;
  std::function<void(const envelope&)> send_; ///< empty after release()
  flow flows_[output_streams];
};

} // namespace farandole
