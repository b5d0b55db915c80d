// Copies the events of processes of this host into traces in memory, on a thread of its own: of this process, if
// FARANDOLE_TRACE names a folder, or of the workers that a launcher or an agent has started, on request. At the end of the
// trace, process_trace or record_writer writes the files.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "messages/record/event_trace.hpp"

namespace farandole {

/// A process whose events can be traced.
struct trace_source {
  const void* identity = nullptr; ///< differs for every process, and is the same at every call for one
  std::function<expected<std::shared_ptr<event_region>>()> map;
  std::function<record_copy()> facts; ///< at the end of the trace
};

/// A packed trace (packed_record.hpp).
struct written_trace {
  std::int32_t slot = -1;
  std::int32_t rank = -1;
  descriptor file;
  std::uint64_t events = 0;
  std::uint64_t dropped = 0; ///< events that were overwritten before they could be copied
  bool is_full = false;      ///< it ended because it had reached its size
};

struct written_traces {
  std::vector<written_trace> traces;
  std::vector<std::string> problems; ///< for users
};

struct trace_plan {
  trace_bounds bounds;
  /// The processes that can be traced now. Called on the thread, several times in a second, because processes start while
  /// others are traced.
  std::function<std::vector<trace_source>()> sources;
  /// An existing folder for the files while they grow, where they last if the process is killed. Empty: in memory.
  std::string folder;
  /// May be empty. Called on the thread, once, when the trace of each process has reached a bound.
  std::function<void()> ended;
};

class trace_writer {
public:
  /// Starts the thread.
  explicit trace_writer(trace_plan plan);
  /// Discards the traces, unless they are being written.
  ~trace_writer();
  trace_writer(const trace_writer&) = delete;
  trace_writer& operator=(const trace_writer&) = delete;

  /// Ends the traces and writes them. `done` is called on the thread. Only once.
  void end(std::function<void(written_traces written)> done);

private:
  struct running {
    const void* identity;
    std::function<record_copy()> facts;
    event_trace trace;
    std::string path; ///< of its file; empty: in memory
  };

  void work();
  void look_for_sources();
  void start(const trace_source& source);
  double pull_all();
  bool all_have_ended() const;
  written_traces finish();

  trace_plan plan_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false;
  std::function<void(written_traces written)> done_;

  // Only on the thread.
  std::vector<running> traces_;
  std::vector<const void*> refused_; ///< processes that cannot be traced
  std::vector<std::string> problems_;
  bool said_ended_ = false;

  std::thread thread_;
};

} // namespace farandole
