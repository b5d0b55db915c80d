// Where the output of a worker goes: on the launcher's host to its writer (labelled_output.hpp), on other hosts over
// the agent's link (link_output.hpp).
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>

namespace farandole {

/// Receives the output of one worker. Stream 0 is its standard output, stream 1 its standard error, and stream 2 its
/// channel. Called on the loop only.
class output_sink {
public:
  virtual ~output_sink() = default;

  /// Takes the next bytes of a stream, also when the sink is full.
  virtual void write(int stream, std::string_view bytes) = 0;
  /// The stream has ended.
  virtual void end(int stream) = 0;
  /// Back-pressure: while it returns true, the caller must not read further bytes of this stream from the worker.
  virtual bool full(int stream) const = 0;
  /// Calls `action` once, as soon as the stream is not full; possibly at once, and possibly on another thread.
  virtual void when_there_is_room(int stream, std::function<void()> action) = 0;
  /// The last lines of stream 1, for the report of a failure.
  virtual std::deque<std::string> last_lines() const = 0;
};

} // namespace farandole
