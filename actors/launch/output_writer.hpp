// Writing to a terminal or a pipe may block for as long as its reader likes, and the loop must not. So one
// thread writes what the loop hands over; when too much is waiting, the loop stops reading from the workers,
// who then block in their own writes as they would without a launcher between.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole {

class output_writer {
public:
  /// Start to say no above this, say yes again below half of it.
  static constexpr std::size_t limit_bytes = 4 << 20;

  output_writer();
  output_writer(const output_writer&) = delete;
  output_writer& operator=(const output_writer&) = delete;
  /// Writes what is queued, however long that takes.
  ~output_writer();

  /// A file, made with its folders, emptied, and closed at the end. Blocks; for the time before the job
  /// starts.
  expected<int> open(const std::string& path);

  /// Queues. Texts for one target keep their order, and those for different targets too. Never blocks for
  /// long; takes what it is given even when full().
  void write(int target, std::string text);
  bool full() const;
  /// Called once, from the writer's thread, when a full queue has room again.
  void when_there_is_room(std::function<void()> action);

private:
  struct chunk {
    int target;
    std::string text;
  };
  void run();
  void put(const chunk& chunk);

  std::vector<descriptor> files_;
  std::set<int> broken_; ///< the thread's own: targets that took an error; what follows for them is dropped

  mutable std::mutex guard_;
  std::condition_variable changed_;
  std::deque<chunk> queue_;
  std::size_t waiting_bytes_ = 0;
  bool ending_ = false;
  std::vector<std::function<void()>> room_;
  std::thread thread_;
};

} // namespace farandole
