// Turns the events of rank 0 into the records of Horovod's timeline. For each tensor a file shows when it was
// negotiated, with a tick for the request of each rank, when it was executed, and by which path. This class has the
// state of each tensor between two of its events; it knows no file, thread or clock.
//
// Every begin of a tensor gets its end, and the times of one tensor never decrease, for all sequences of events: events may
// be missing because they were overwritten, or because the timeline began in the middle of an operation.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/timeline/trace_text.hpp"
#include "messages/record/event.hpp"
#include "messages/record/tick_clock.hpp"
#include "messages/values/signature.hpp"

namespace farandole {

class timeline_records {
public:
  /// Finds a name of the record by its index; an empty text if it is not there.
  using name_lookup = std::function<std::string_view(std::uint32_t)>;

  /// `start`: the time from which the records count. Writes the two records at the start of a file.
  timeline_records(name_lookup names, bool mark_cycles, const tick_reading& start);

  /// The next event, in the order of time.
  void add(const event& entry, const tick_scale& scale);
  /// `count` events before the next one are missing. Operations that are in progress end here in the file.
  void lost(std::uint64_t count, std::uint64_t ticks, const tick_scale& scale);
  /// The timeline stops: ends the operations that are in progress.
  void finish(std::uint64_t ticks, const tick_scale& scale);

  /// Bytes that take() would return.
  std::size_t size() const { return text_.size(); }
  /// The records since the last call, joined by commas.
  std::string take() { return text_.take(); }

private:
  /// An operation as events name it.
  struct operation_type {
    /// join has no records, and so stands for unknown operations.
    farandole::operation operation = farandole::operation::join;
    bool adasum = false;
  };

  /// A tensor proceeds from each phase to the next.
  enum class phase : std::uint8_t {
    idle,
    negotiating, ///< its negotiation has begun in the file
    ready,       ///< its negotiation has ended in the file
    executing    ///< its operation has begun in the file
  };

  struct tensor {
    std::uint16_t set = 0;
    std::string name;
    std::uint64_t process = 0; ///< in the file; 0: it has no records yet
    std::uint64_t last_us = 0; ///< time of its last record
    operation_type type;
    farandole::timeline_records::phase phase = phase::idle;
    bool own = false;           ///< this rank has submitted it, so an event will tell how it ends
    bool in_activity = false;   ///< a path runs
    bool in_bundle = false;     ///< it counts in the bundle `sequence`
    std::uint64_t sequence = 0; ///< of its bundle
    std::uint64_t ready_us = 0;
    /// The fast path: this rank has published, and when; and the members whose cells were published, by time.
    bool published = false;
    std::uint64_t published_us = 0;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> cells;
    /// Requests for the next operation of this name, which other ranks made before this one has ended here: times, by
    /// rank.
    std::map<std::uint64_t, std::uint64_t> early;
    operation_type early_type;
  };

  struct bundle {
    std::vector<tensor*> tensors;
    std::size_t unsettled = 0;
  };
  using bundle_key = std::pair<std::uint16_t, std::uint64_t>; ///< set and sequence number

  static operation_type type_of(std::uint8_t detail);
  std::uint64_t time_of(std::uint64_t ticks, const tick_scale& scale) const;
  tensor& find(const event& entry);

  void requested(tensor& entry, operation_type type, std::uint64_t rank, std::uint64_t time_us);
  void became_ready(tensor& entry, operation_type type, std::uint64_t first_us, std::uint64_t time_us);
  void scheduled(tensor& entry, operation_type type, std::uint64_t sequence);
  void path_began(const event& entry, std::uint64_t time_us);
  void path_ended(const event& entry, std::uint64_t time_us);
  void settled(tensor& entry, bool failed, bool on_fast_path, std::uint64_t time_us);
  void settled_on_fast_path(tensor& entry, bool failed, std::uint64_t time_us);
  void settled_inline(tensor& entry, std::uint64_t time_us);
  void end_foreign(std::uint64_t time_us, bool all_sets, std::uint16_t set);

  void begin_negotiation(tensor& entry, std::uint64_t time_us);
  void fail_negotiation(tensor& entry, std::uint64_t time_us);
  void end_execution(tensor& entry, std::uint64_t time_us);
  /// The operation has ended in the file; the next one may have begun.
  void end_round(tensor& entry);
  void end_all(std::uint64_t time_us);
  void leave_bundle(tensor& entry);

  void begin(tensor& entry, std::string_view name, std::uint64_t time_us);
  void end(tensor& entry, std::uint64_t time_us);
  void tick(tensor& entry, std::uint64_t rank, std::uint64_t time_us);
  void mark_cycle(std::uint64_t time_us);
  /// Times of one tensor never decrease.
  static std::uint64_t advance(tensor& entry, std::uint64_t time_us);

  name_lookup names_;
  const bool mark_cycles_;
  const tick_reading start_;
  trace_text text_;
  std::uint64_t processes_ = 0;
  std::map<std::pair<std::uint16_t, std::string>, tensor> tensors_;
  std::unordered_map<std::uint64_t, tensor*> by_index_; ///< by set and index of the name
  std::map<bundle_key, bundle> bundles_;
};

} // namespace farandole
