// What one rank did, and when: the calls of its program, the waits of its callers and its transfers. Derived from its
// record alone. Times of traces with the same axis are comparable: their ranks are on one host, or the clocks of their hosts
// were measured (host_clocks.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "messages/record/event_reader.hpp"
#include "tools/farandole/explain/rank_activity.hpp"

namespace farandole {

using trace_time = std::chrono::nanoseconds;

/// Numbers for the tensors of a job, the same for all of its traces.
class traced_tensors {
public:
  std::uint32_t index_of(const tensor_key& tensor);
  const tensor_key& at(std::uint32_t index) const { return tensors_[index]; }
  std::size_t size() const { return tensors_.size(); }

private:
  std::map<tensor_key, std::uint32_t> index_;
  std::vector<tensor_key> tensors_;
};

/// What the leader has recorded when all ranks had requested a tensor.
struct traced_readiness {
  trace_time time{0};
  std::int32_t last = -1; ///< rank whose request came last; with relays, the relay that sent it
};

struct traced_call {
  std::uint32_t tensor = 0; ///< in the table
  trace_time called{0};
  std::optional<trace_time> settled;
  std::optional<std::uint64_t> round;    ///< on the fast path
  std::optional<std::uint64_t> sequence; ///< of its bundle; none: it was in no bundle
  trace_time scheduled{0};               ///< with a sequence
  std::optional<traced_readiness> ready; ///< on the leader only
};

struct traced_wait {
  trace_time begin{0};
  trace_time end{0};
  std::optional<std::size_t> call; ///< none: the event of the call was overwritten
};

/// The runs of a path for one bundle.
struct traced_transfer {
  std::uint8_t operation = 0; ///< as in the record
  trace_time begin{0};
  trace_time end{0};
  trace_time ran{0};    ///< without the time between two runs
  trace_time waited{0}; ///< of `ran`, for other members; 0 on paths that do not measure it
};

/// A bundle has the same set and sequence number on all ranks.
using bundle_key = std::pair<std::uint16_t, std::uint64_t>;

struct traced_mark {
  std::uint64_t number = 0;
  trace_time time{0};
};

struct rank_trace {
  std::int32_t rank = -1;
  std::string host;
  std::size_t axis = 0;
  trace_time clock_error{
      0}; ///< bound of the error of its times on this axis, if compared with those of another host
  std::int32_t above =
      -1; ///< the rank on another host through which its host is connected to rank 0; -1: not known
  bool whole = true;                               ///< no event of the generation was overwritten
  trace_time begin{0};                             ///< no event is missing from here on
  trace_time end{0};                               ///< of the last event
  std::vector<traced_call> calls;                  ///< by time
  std::vector<traced_wait> waits;                  ///< those that have ended, by their begin
  std::map<bundle_key, traced_transfer> transfers; ///< those that have ended
  std::vector<traced_mark> marks;                  ///< of steps
};

/// Follows the record in the generation of the activity until the job fails. `scale` is the same for all ranks of a host;
/// times are counted from `origin`. The caller sets `axis`, `clock_error` and `above`.
rank_trace trace_of(const event_record& record, const rank_activity& activity, const tick_scale& scale,
                    record_time origin, traced_tensors& tensors);

} // namespace farandole
