// Reads a descriptor, such as the standard input, on a thread of its own, because a read from a terminal or of a file may
// block without limit, and the event loop must not block. Back-pressure: it reads no more bytes than it was allowed to.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>

#include "messages/values/descriptor.hpp"

namespace farandole {

class input_reader {
public:
  /// Largest number of bytes that are delivered at once.
  static constexpr std::size_t most_piece_bytes = std::size_t{64} << 10;

  /// The caller owns `source`, which must stay open as long as the reader lives.
  explicit input_reader(int source);
  input_reader(const input_reader&) = delete;
  input_reader& operator=(const input_reader&) = delete;
  ~input_reader() { stop(); }

  /// Starts the thread. It calls `deliver` with the bytes that it reads; with none, once, at the end of the input.
  /// `deliver` is destroyed when the thread ends. Call it once.
  void start(std::function<void(std::string bytes)> deliver);
  /// Lets the reader read this many more bytes. Any thread may call it.
  void allow(std::size_t bytes);
  /// Ends the thread soon. Any thread may call it.
  void end();
  /// Ends the thread and waits for it. Belongs, like start(), to the thread that owns the reader.
  void stop();

private:
  void run(const std::function<void(std::string bytes)>& deliver);

  int source_;
  descriptor bell_; ///< wakes the thread
  std::atomic<std::size_t> allowed_bytes_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

} // namespace farandole
