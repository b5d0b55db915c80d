// Writes the event records of a job, or its traces, to files in one folder: those of this host, which it copies, and those
// of other hosts, which arrive in parts. It works on a thread of its own, because a disk may be slow.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "actors/launch/worker_records.hpp"
#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"
#include "messages/wire/records.hpp"

namespace farandole {

class process_keeper;

/// Which records are written, and where.
struct record_order {
  /// Exists, and only this user can access it. Empty: a new one in `parent`, if a worker has called init().
  std::string folder;
  std::string parent;           ///< see record_folder.hpp
  std::vector<held_record> own; ///< of this host
  /// If set, the new folder is a temporary one. The function is called on the writer's thread with its path when all files
  /// are complete. Its result is `text` in the outcome, and the folder is removed.
  std::function<std::string(const std::string& folder)> read = {};
};

struct record_outcome {
  std::string folder;      ///< empty: no worker has called init(), there was a problem, or it is removed
  std::uint32_t files = 0; ///< in the folder
  error problem = {};      ///< with the path; the folder, if it is new, was removed
  std::string text = {};   ///< see record_order
};

/// One order after the other: begin(), then write() and end_of() for each other host, then finish(). The functions return
/// at once. The callbacks are called on the writer's thread.
class record_writer {
public:
  record_writer() = default;
  /// The keeper removes temporary folders if this process is killed. It lives longer than the writer.
  explicit record_writer(const process_keeper& keeper) : keeper_(&keeper) {}
  /// Waits until everything is written.
  ~record_writer();
  record_writer(const record_writer&) = delete;
  record_writer& operator=(const record_writer&) = delete;

  void begin(record_order order);
  /// The traces of this host.
  void write(written_traces traces);
  /// A part of a record on `host`, whose parts arrive in order, one record after the other. The caller waits for `done`
  /// before it passes the next part of this host, which bounds the memory.
  void write(const std::string& host, record_part part, std::function<void()> done);
  /// All parts from this host were passed.
  void end_of(const std::string& host);
  void finish(std::function<void(const record_outcome& outcome)> done);

private:
  /// A file of another host that is not complete.
  struct incomplete {
    std::int32_t slot = 0;
    descriptor file;
    std::string path;
  };

  void add(std::function<void()> task);
  void work();
  bool has_folder();
  void write_own();
  void write_trace(const written_trace& trace);
  void write_part(const std::string& host, const record_part& part);
  void complete(const std::string& host);
  void read();
  void fail(const std::string& path);
  void give_up(error problem);

  const process_keeper* keeper_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool closing_ = false;
  std::thread thread_; ///< started by the first order

  // Only on the thread.
  record_order order_;
  record_outcome outcome_;
  std::map<std::string, incomplete> incomplete_; ///< by host
};

} // namespace farandole
