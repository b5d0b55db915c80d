// The thread of a timeline: follows the event record and appends records to the file. It reads often while events come,
// so that rings are not overrun, and sleeps in the kernel while none come.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "actors/event_loop/log.hpp"
#include "actors/timeline/timeline_file.hpp"
#include "actors/timeline/timeline_records.hpp"
#include "messages/record/event_follower.hpp"
#include "messages/record/event_recorder.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Receives lines for the log.
using timeline_report = std::function<void(log_level level, const std::string& text)>;

class timeline_writer {
public:
  /// Creates the file. From now on the recorder records the details that a timeline needs.
  static expected<std::shared_ptr<timeline_writer>> create(std::shared_ptr<event_recorder> recorder,
                                                           const std::string& path, bool mark_cycles,
                                                           timeline_report report);
  ~timeline_writer();
  timeline_writer(const timeline_writer&) = delete;
  timeline_writer& operator=(const timeline_writer&) = delete;

  /// The thread's function: writes until end() is called, or until the file cannot be written. Then the file is
  /// complete, and the future of ended() is ready.
  void run();

  // ---- other threads ----

  void end();
  std::future<void> ended() { return ended_.get_future(); }
  /// Whether the file could not be written.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// Nothing is reported any more: the log may end before the thread does.
  void forget_report();

private:
  timeline_writer(std::shared_ptr<event_recorder> recorder, std::string path, bool mark_cycles,
                  timeline_report report);

  bool ending() const { return ending_.load(std::memory_order_acquire); }
  /// Reads the events up to these ticks; returns whether there were any.
  bool read_events(std::uint64_t end_ticks);
  void read_clock();
  void rest();
  void write();
  void report(log_level level, const std::string& text);

  const std::shared_ptr<event_recorder> recorder_;
  const std::string path_;
  std::mutex report_mutex_;
  timeline_report report_;

  event_follower follower_;
  tick_reading last_reading_;
  tick_scale scale_;
  timeline_records records_;
  std::optional<timeline_file> file_; ///< closed when the thread ends
  bool reported_loss_ = false;
  std::uint32_t idle_reads_ = 0; ///< in a row
  std::chrono::steady_clock::time_point unwritten_since_{};

  std::atomic<bool> ending_{false};
  std::atomic<bool> failed_{false};
  std::promise<void> ended_;
};

} // namespace farandole
