// What the workers of a job have told of themselves (FARANDOLE_ELASTIC_EVENTS), and what follows from it: who
// is there, and how a fault was got over. Plain decisions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace farandole::chaos {

/// One line of a worker's.
struct worker_event {
  std::string text;
  double ms = 0; ///< of the clock that all processes of a machine share
  std::int64_t pid = 0;
  std::int32_t slot = 0;
  std::uint64_t generation = 0;
  std::int32_t rank = -1;
  std::string host; ///< as the launcher names it
  std::map<std::string, std::int64_t> counters;
};

/// A line of JSON; nothing where it is none.
std::optional<worker_event> parse_event(std::string_view line);

/// Who trains.
struct seat {
  std::int32_t slot = 0;
  std::int32_t rank = 0;
  std::int64_t pid = 0;
  std::uint64_t generation = 0;
  std::string host;
};

/// How a fault was got over. Nothing where it did not come to that.
struct recovery {
  std::optional<double> told_ms;      ///< from the fault until the last survivor had been told
  std::optional<double> regrouped_ms; ///< from then on, until all of them trained again
  std::optional<std::int64_t> steps;  ///< that were lost, where the state counts them as `step` or `batch`
};

class timeline {
public:
  void add(const worker_event& event);
  /// In the order in which they were added.
  const std::vector<worker_event>& events() const { return events_; }

  /// Members of the last generation that train and have not left, by rank.
  std::vector<seat> members() const;
  /// Of a fault that hit this slot while that generation trained. What was told outside of these times, or,
  /// where the fault is none, as a planned change, has other causes.
  struct cause {
    double at_ms = 0, until_ms = 0;
    std::uint64_t generation = 0;
    std::int32_t slot = 0;
    bool changes_members = true;
  };
  recovery recovery_of(const cause& cause) const;
  /// So many commits the members have made in these times: those of who made most.
  std::int64_t commits_between(double from_ms, double to_ms) const;
  /// So many workers' training functions have been called, and have returned.
  std::size_t begun() const { return workers_with("training"); }
  std::size_t ended() const { return workers_with("ended"); }

private:
  std::size_t workers_with(std::string_view text) const;

  std::vector<worker_event> events_;
  std::uint64_t generation_ = 0; ///< the last one that anybody trains in
};

} // namespace farandole::chaos
