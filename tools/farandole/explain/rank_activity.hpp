// What one rank was doing when its record ended or its job failed. Derived from the record alone.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "messages/record/event_kinds.hpp"
#include "messages/record/event_reader.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Times of records are in UTC, since 1970.
using record_time = std::chrono::nanoseconds;

/// A damaged record may state any size of its job.
inline constexpr std::int32_t most_ranks = 65'536;

/// Whether a process in this state cannot go on: it is stopped, waits for a disk or a device, or is dead.
bool is_held(char state);

struct tensor_key {
  std::uint16_t set = 0; ///< 0: the global process set
  std::string name;

  friend auto operator<=>(const tensor_key&, const tensor_key&) = default;
};

/// The calls of one rank for one tensor.
struct tensor_calls {
  std::uint64_t count = 0;               ///< calls that the record shows
  bool pending = true;                   ///< the last one had not completed
  error_kind problem = error_kind::none; ///< of the last call, if it failed while the job went on
  record_time since{0};                  ///< time of the last call
  record_time completed_since{0};        ///< time of the last call that has completed; 0: it is not recorded
  record_time completed{0};              ///< when that call completed; 0: none has
  std::uint8_t operation = 0;            ///< as in the record
  std::uint64_t bytes = 0;               ///< of the input
};

/// A process that is between two generations, or on its way into its first one.
struct regroup_state {
  regroup_phase phase = regroup_phase::waiting; ///< or connecting
  std::uint64_t generation = 0;                 ///< as in the record
  record_time since{0};
};

struct rank_activity {
  std::int32_t rank = -1; ///< -1: the process has not become a member
  std::int32_t slot = -1; ///< of the worker in its launcher; -1: not known
  std::int32_t size = 0;
  std::uint64_t job = 0;
  std::uint64_t generation = 0;
  std::optional<record_time> entered; ///< when it entered the generation; empty: it is not recorded
  std::string host;
  bool started = false; ///< the process has called init()

  std::map<tensor_key, tensor_calls> tensors;
  std::map<tensor_key, record_time> waits; ///< callers that waited, and since when
  /// The path that a lane was running.
  struct path_run {
    std::string name;
    record_time since{0};
  };
  std::optional<path_run> path;
  /// The last event of a caller's thread. If no caller waits, the rank has been in user code since then.
  struct call_event {
    tensor_key tensor;
    record_time time{0};
  };
  std::optional<call_event> last;
  /// The first operation that a caller submitted after the end of the generation.
  std::optional<call_event> refused;
  std::set<std::uint16_t> sets; ///< ids of process sets, other than the global one, to which it belongs
  record_time joined{0};        ///< when all members of a set had joined last; 0: never

  /// The moment from which the job fails for this rank: the calls that were pending then fail as a consequence.
  std::optional<record_time> failure;
  std::uint64_t failure_ticks = 0; ///< of the same moment, if there is one
  std::string reason;              ///< why its generation ended; empty: it did not end
  /// Set if it has asked for the next generation and has not entered it. The other fields are about the time before.
  std::optional<regroup_state> regroup;
  record_time last_event{0};         ///< 0: there is none
  std::optional<record_time> copied; ///< when the launcher copied the record
  std::string ending;                ///< how the process ended; empty: it ran, or this is not known
  bool told_to_end = false;          ///< by its launcher
  std::int32_t process = 0;          ///< its id on its host; 0: not known
  char state = 0;                    ///< of the running process; see record_copy
  std::uint64_t dropped = 0;         ///< events that were overwritten
  std::size_t file = 0;              ///< position of the record among those that were read

  /// Whether the process ended without leaving the job: it was killed, or has crashed.
  bool is_gone() const { return started && !ending.empty() && !told_to_end && reason.empty(); }
  const tensor_calls* calls_of(const tensor_key& tensor) const;
  bool has_pending(const tensor_key& tensor) const;
  /// A call for this tensor that another rank made after this time, and completed, is the last one of this rank or a later
  /// one: every rank makes a call before any rank completes it, except for ranks that have joined. The record may not
  /// tell the time; then no call was made after the result.
  record_time earlier_calls_end(const tensor_key& tensor) const;
  /// Whether it completed the last call of the other rank for this tensor, or a later one.
  bool has_passed(const rank_activity& other, const tensor_key& tensor) const;
};

/// The generation of which the last events of the record are.
std::uint64_t last_generation(const event_record& record);

/// Nanoseconds of a tick of the record. `reading`: the time of the host's clock, for a record that is no copy.
double tick_length_of(const event_record& record, const tick_reading& reading);
/// Converts the ticks of a record to the times of its host's clocks.
tick_scale scale_of(const event_record& record, const tick_reading& reading);

/// What the record says of this generation, or of an earlier one if the rank has not entered it. `scale` gives the times.
rank_activity activity_in(const event_record& record, std::uint64_t generation, const tick_scale& scale);
rank_activity activity_in(const event_record& record, std::uint64_t generation, const tick_reading& reading);

} // namespace farandole
