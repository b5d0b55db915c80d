// Writes the output of all workers on a thread of its own, because a write to a terminal or a pipe may block without
// limit, and the event loop must not block. Back-pressure: when too many bytes are queued, the loop stops reading
// from the workers. The workers then block in their own writes, as they would without a launcher.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole {

class output_writer {
public:
  /// full() is true above this number of queued bytes; callbacks for free room run at half of it.
  static constexpr std::size_t limit_bytes = 4 << 20;

  output_writer();
  output_writer(const output_writer&) = delete;
  output_writer& operator=(const output_writer&) = delete;
  /// Writes all queued output before it returns, without a time limit.
  ~output_writer();

  /// Calls `action` on the writer's thread when the reader of a target has gone, instead of printing that output is lost:
  /// the caller ends the process that writes, as the kernel does by SIGPIPE. Call it before the first write().
  void when_unread(std::function<void()> action) { unread_ = std::move(action); }

  /// Creates or truncates a file, and creates its parent directories. Returns its descriptor, which the writer owns
  /// until close(). Blocks, so call it before the job starts.
  expected<int> open(const std::string& path);
  /// Closes the descriptor of a file after all texts that are queued for it. Never blocks for long.
  void close(int file);

  /// Queues a text for a target descriptor. All texts are written in the order of the calls. Never blocks for long,
  /// and accepts the text even when full().
  void write(int target, std::string text);
  bool full() const;
  /// Calls `action` once there is room: at once on the calling thread if the queue has room now, otherwise later on
  /// the writer's thread.
  void when_there_is_room(std::function<void()> action);

private:
  struct chunk {
    int target;
    std::string text; ///< empty: close the file
  };
  void run();
  void put(const chunk& chunk);

  std::function<void()> unread_; ///< used only by thread_ after the first write
  std::set<int> broken_; ///< used only by thread_: targets whose write failed; output to them is dropped

  mutable std::mutex mutex_;
  std::map<int, descriptor> files_;
  std::condition_variable changed_;
  std::deque<chunk> queue_;
  std::size_t waiting_bytes_ = 0;
  bool ending_ = false;
  std::vector<std::function<void()>> room_;
  std::thread thread_;
};

} // namespace farandole
