// The trace of one process: all of its events from some moment on, where the record keeps only the last ones of each
// thread. A trace is copied from the record as that grows, into a record with larger rings, so all readers of records
// read traces. event_kind::gap marks the places where events were overwritten before they could be copied.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "messages/record/event_copy.hpp"
#include "messages/record/event_region.hpp"
#include "messages/values/descriptor.hpp"

namespace farandole {

/// When a trace ends by itself.
struct trace_bounds {
  /// Training steps: those that the program has marked with mark_step(). Without marks, a step has passed when at least
  /// half of the tensors have been submitted once more. 0: no limit.
  std::uint32_t steps = 0;
  std::uint64_t bytes = std::uint64_t{64} << 20; ///< of events
};

/// For one thread, which need not belong to the process whose events are copied.
class event_trace {
public:
  /// Begins with the events that are written from now on. `file`: empty; it is a record at any moment, even if the tracing
  /// process is killed.
  static expected<event_trace> begin(std::shared_ptr<event_region> source, descriptor file,
                                     const trace_bounds& bounds);

  /// Copies the events since the last call. Returns the share of the fullest ring that was new: from 1 on, events were
  /// lost.
  double pull();
  /// A bound was reached: pull() copies nothing any more.
  bool has_ended() const { return is_full_ || problem_ != 0 || steps_passed(); }
  /// Adds the facts that the tracing process has about the traced one.
  void finish(const record_copy& facts);

  std::int32_t rank() const { return target_->header().rank.load(std::memory_order_relaxed); }
  std::uint64_t events() const { return events_; }
  std::uint64_t dropped() const { return dropped_; }
  bool is_full() const { return is_full_; }
  /// The number of the system's error that ended the trace, because the file could not grow; 0: none.
  int problem() const { return problem_; }
  int file() const { return file_.get(); }

private:
  event_trace(std::shared_ptr<event_region> source, std::shared_ptr<event_region> target, descriptor file,
              const trace_bounds& bounds);

  std::size_t pull_ring(std::size_t index);
  void write(std::size_t index, event entry);
  /// Makes room in the file for the next events of a ring. False if there is none.
  bool reserve(std::size_t index);
  std::uint32_t translated(std::uint32_t name);
  void count_call(const event& entry);
  bool steps_passed() const;

  std::shared_ptr<event_region> source_;
  std::shared_ptr<event_region> target_;
  descriptor file_;
  trace_bounds bounds_;
  std::array<std::uint64_t, event_ring_limit> next_{}; ///< by ring: number of the next event to copy
  std::vector<std::uint32_t> names_; ///< index in the target by index in the source; 0: not yet known
  std::uint64_t events_ = 0;
  std::uint64_t dropped_ = 0;
  bool is_full_ = false;
  int problem_ = 0;
  std::array<std::uint64_t, event_ring_limit> reserved_{}; ///< by ring: events for which the file has room
  std::uint32_t marked_steps_ = 0;
  std::vector<std::uint32_t> calls_; ///< by name in the target
  std::size_t called_names_ = 0;
  std::size_t recurred_names_ = 0; ///< names that were called once more than the steps that are wanted
};

} // namespace farandole
