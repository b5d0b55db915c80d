// Passes the reports of stalls from the event loop to the thread of the program that waits for them. Reports are kept only
// if a thread has waited for one before, and only the last few of them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>

#include "messages/values/error.hpp"
#include "messages/wire/stalls.hpp"

namespace farandole {

/// Thread-safe; its lock is only held briefly.
class stall_report_queue {
public:
  static constexpr std::size_t most_reports = 16;

  /// Called on the event loop.
  void push(stall_report report);
  /// Waits for the next report. `timed_out` if the deadline passes; `shut_down` after close().
  expected<stall_report> next(std::chrono::steady_clock::time_point deadline);
  /// There are no further reports: ends all waits.
  void close();

private:
  std::mutex guard_;
  std::condition_variable changed_;
  std::deque<stall_report> reports_;
  bool awaited_ = false; ///< next() has been called
  bool closed_ = false;
};

} // namespace farandole
