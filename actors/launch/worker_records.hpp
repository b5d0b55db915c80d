// Holds the memory in which the workers of this host record their events, so that it can be copied when the job fails or
// loses a member, and when a program asks for it. Launchers and agents have one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/launch/process.hpp"
#include "messages/record/event_copy.hpp"
#include "messages/record/trace_writer.hpp"
#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// How the process of a worker ended.
struct worker_ending {
  std::int32_t slot = 0;
  std::string manner;       ///< "was killed by signal 9 (Killed)"; empty: the process runs
  bool told_to_end = false; ///< the launcher had told it to end
  bool lost = false;        ///< an elastic job continues without this member
};

/// The record of one worker.
struct held_record {
  std::shared_ptr<const descriptor> memory;
  worker_ending ending = {};
  std::int32_t process = 0; ///< its id; 0: it was not started

  /// Whether the worker has called init().
  bool has_content() const;
  /// What the launcher knows about the process now.
  record_copy facts() const;
  /// Copies the record into an empty file. Does not wait for the worker.
  error copy_to(int file) const;
};

/// Thread-safe.
class worker_records {
public:
  /// Gives the process of a slot memory for its record. Its record is kept until forget_ended() after its end.
  void give(std::int32_t slot, process_spec& process);
  void started(std::int32_t slot, std::int32_t process);
  void ended(const worker_ending& ending);
  /// The job has continued without the workers that have ended so far.
  void forget_ended();
  /// By slot.
  std::vector<held_record> held() const;
  /// The workers that have called init(), for a trace. The results use this object.
  std::vector<trace_source> trace_sources() const;

private:
  /// The present entry of the record in this memory; `record` itself if that was forgotten.
  held_record present(const held_record& record) const;

  mutable std::mutex mutex_;
  std::map<std::int32_t, held_record> records_; ///< by slot
};

} // namespace farandole
