// The invariants of an elastic job, checked at every event: the order and the results of bundles, the
// announcements of generations, and the training state of the members. Also writes a transcript on request.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "messages/wire/membership.hpp"
#include "tests/world/chronicle.hpp"
#include "tests/world/data_plane.hpp"

namespace farandole::testing {

/// The progress of training.
struct training_state {
  std::int64_t round = 0;
  std::int64_t digest = 0; ///< digest of all sums so far

  friend bool operator==(const training_state&, const training_state&) = default;
};

class elastic_log {
public:
  using clock_text = std::function<std::string()>;

  /// `current_time` is written before each line of the transcript; without it there is no transcript.
  explicit elastic_log(clock_text current_time = {}) : current_time_(std::move(current_time)) {}

  /// Adds a line to the transcript; the text is created only if there is a transcript.
  template <class Text>
  void note(Text&& text) {
    if (current_time_)
      transcript_.push_back(current_time_() + " " + text());
  }
  void problem(const std::string& text);
  bool has_transcript() const { return static_cast<bool>(current_time_); }

  /// The rendezvous sends this welcome.
  void welcomed(const welcome& greeting);
  /// The rendezvous has lost the link of this slot although its process may live, so the process may rejoin
  /// as a new member.
  void cut_off(std::int32_t slot) { cut_off_.insert(slot); }
  /// The last generation in its journal may not have been announced, so one more generation may be missing
  /// here.
  void rendezvous_ended() { ++unannounced_; }
  /// From now on two generations may have the same number. The invariants between generations are no longer
  /// checked; those within a generation are.
  void rendezvous_doubled() { doubled_ = true; }
  bool is_doubled() const { return doubled_; }

  void ran(const set_key& set, std::int32_t place, std::int32_t members, const lane_task& task);
  /// The `count`th operation of this name in this set succeeded with this result on a member.
  void brought(const set_key& set, const std::string& name, std::uint64_t count,
               const std::vector<std::int64_t>& result);
  /// The operation was on the fast path, where it must end in the same way on all remaining members.
  void ended_on_fast_path(const set_key& set, const std::string& name, std::uint64_t count, bool well);
  /// The number of operations that succeeded on the fast path.
  std::uint64_t on_fast_path() const { return on_fast_path_; }
  /// A member leaves its generation as planned, sends its farewell to the rendezvous, and has left.
  void leaves(std::int32_t slot) { leaving_.insert(slot); }
  void farewell(std::int32_t slot) { farewells_.insert(slot); }
  void left(std::int32_t slot);
  /// A fault happens: a member that leaves may fail to send its farewell.
  void disturbed() { disturbed_ = true; }
  /// A member begins to train in a generation.
  void trains(const set_key& global, std::int32_t slot, const training_state& from);
  /// A member knows that all members have committed this state.
  void committed(const set_key& global, const training_state& state);

  std::uint64_t generations() const { return last_.generation; }
  const std::vector<std::string>& problems() const { return problems_; }
  const std::vector<std::string>& transcript() const { return transcript_; }
  /// Slots of the last generation, by rank.
  std::vector<std::int32_t> slots() const;
  std::uint64_t hash() const;

private:
  struct generation {
    welcome first;                         ///< the first welcome of this generation
    std::vector<std::optional<bool>> late; ///< by rank, for the members with a welcome
    std::optional<training_state> begins;
  };
  void check_order(const generation& current);
  bool has_continuing_member(const generation& formed) const;

  clock_text current_time_;
  set_key last_;                              ///< generation
  set_key before_;                            ///< the previous generation that was announced to a member
  std::map<set_key, generation> generations_; ///< by their global sets
  std::map<set_key, chronicle> sets_;
  std::map<set_key, std::map<std::pair<std::string, std::uint64_t>, std::vector<std::int64_t>>> results_;
  std::map<set_key, std::map<std::pair<std::string, std::uint64_t>, bool>> rounds_; ///< whether it succeeded
  std::uint64_t on_fast_path_ = 0;
  std::uint64_t unannounced_ = 0; ///< possible unannounced generations since the last one
  bool doubled_ = false;
  std::set<std::int32_t> cut_off_;
  std::set<std::int32_t> leaving_;
  std::set<std::int32_t> farewells_; ///< slots that sent their farewell to the rendezvous
  bool disturbed_ = false;
  std::set<std::int32_t> trained_; ///< slots that have received the state
  training_state safe_;            ///< the last state that all members had committed
  std::vector<std::string> problems_;
  std::vector<std::string> transcript_;
};

} // namespace farandole::testing
