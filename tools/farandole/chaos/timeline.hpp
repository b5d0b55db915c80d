// The events that the workers of a job have reported (FARANDOLE_ELASTIC_EVENTS), and conclusions from them: the
// current members, and the recovery from a fault. Performs no input or output.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace farandole::chaos {

/// One line that a worker has reported.
struct worker_event {
  std::string text;
  double ms = 0; ///< on the monotonic clock that all processes of a machine share
  std::int64_t pid = 0;
  std::int32_t slot = 0;
  std::uint64_t generation = 0;
  std::int32_t rank = -1;
  std::string host; ///< the launcher's name for it
  std::map<std::string, std::int64_t> counters;
};

/// Parses a line of JSON; returns nothing if the line is no event.
std::optional<worker_event> parse_event(std::string_view line);

/// A member that trains.
struct seat {
  std::int32_t slot = 0;
  std::int32_t rank = 0;
  std::int64_t pid = 0;
  std::uint64_t generation = 0;
  std::string host;
};

/// The recovery from a fault. A value is absent if the recovery did not reach that point.
struct recovery {
  std::optional<double> told_ms;      ///< from the fault until the last survivor noticed it
  std::optional<double> regrouped_ms; ///< from then until all survivors trained again
  std::optional<std::int64_t> steps;  ///< lost steps, if the state counts them as `step` or `batch`
};

class timeline {
public:
  void add(const worker_event& event);
  /// The events in the order in which they were added.
  const std::vector<worker_event>& events() const { return events_; }

  /// Members of the last generation that train and have not left, sorted by rank.
  std::vector<seat> members() const;
  /// A fault that hit `slot` while `generation` trained. Events outside of the interval have other causes. So do
  /// planned changes of membership, unless `changes_members` is set.
  struct cause {
    double at_ms = 0, until_ms = 0;
    std::uint64_t generation = 0;
    std::int32_t slot = 0;
    bool changes_members = true;
  };
  recovery recovery_of(const cause& cause) const;
  /// The number of commits in the interval, as the maximum over the members.
  std::int64_t commits_between(double from_ms, double to_ms) const;
  /// The numbers of workers whose training function has been called, and has returned.
  std::size_t begun() const { return workers_with("training"); }
  std::size_t ended() const { return workers_with("ended"); }

private:
  std::size_t workers_with(std::string_view text) const;

  std::vector<worker_event> events_;
  std::uint64_t generation_ = 0; ///< the last one in which a worker has begun to train
};

} // namespace farandole::chaos
