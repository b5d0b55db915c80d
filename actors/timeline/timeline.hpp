// Horovod's timeline of one runtime: starts and stops the thread that follows the event record and writes the file.
// A problem with the file ends the timeline with one line in the log, never the training.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "actors/event_loop/log.hpp"
#include "messages/record/event_recorder.hpp"

namespace farandole {

class timeline_writer;

/// Thread-safe.
class timeline {
public:
  /// `log` must outlive this object. `patience`: how long stop() waits for a file system that does not answer.
  timeline(std::shared_ptr<event_recorder> recorder, logger& log, std::chrono::nanoseconds patience);
  /// stop().
  ~timeline();
  timeline(const timeline&) = delete;
  timeline& operator=(const timeline&) = delete;

  /// Writes to this file from now on, after the current one has been completed. Nothing changes if the current file has
  /// the same path. `mark_cycles`: whether the file shows when bundles start.
  void start(const std::string& path, bool mark_cycles);
  /// Completes the file: it has all operations that ended before the call. Returns whether there was one.
  bool stop();

private:
  bool stop_locked();

  const std::shared_ptr<event_recorder> recorder_;
  logger& log_;
  const std::chrono::nanoseconds patience_;
  std::mutex mutex_; ///< held while a file is completed
  std::string path_;
  std::shared_ptr<timeline_writer> writer_; ///< null: stopped
  std::thread thread_;
};

} // namespace farandole
