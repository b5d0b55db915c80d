// The trace that this process writes of itself into the folder that FARANDOLE_TRACE names, from init() to shutdown().
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "actors/event_loop/log.hpp"
#include "messages/record/event_recorder.hpp"
#include "messages/record/trace_writer.hpp"
#include "messages/settings/settings.hpp"

namespace farandole {

class process_trace {
public:
  /// Begins a trace if the setting names a folder; null otherwise. A warning is logged if it cannot be written.
  static std::unique_ptr<process_trace> begin(const settings& values,
                                              const std::shared_ptr<event_recorder>& recorder, logger& log);
  /// `patience`: how long the destructor waits for a file system that does not answer.
  process_trace(std::string folder, trace_plan plan, logger& log, std::chrono::seconds patience);
  /// Writes the trace to rank-N.trace in the folder, or with a further number if there is such a file, because an elastic
  /// job had a process of that rank before.
  ~process_trace();
  process_trace(const process_trace&) = delete;
  process_trace& operator=(const process_trace&) = delete;

private:
  std::string folder_;
  logger& log_;
  std::chrono::seconds patience_;
  std::unique_ptr<trace_writer> writer_;
};

} // namespace farandole
