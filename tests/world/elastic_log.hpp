// What must hold in an elastic job, looked at whenever something happens: in which order bundles run, what
// they bring, who is told what of a generation, with which state members train, what becomes of the state.
// And the transcript of it all, where somebody wants to read it.
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

/// Where training stands.
struct training_state {
  std::int64_t round = 0;
  std::int64_t digest = 0; ///< of all sums so far

  friend bool operator==(const training_state&, const training_state&) = default;
};

class elastic_log {
public:
  using clock_text = std::function<std::string()>;

  /// `now`: written before each line of the transcript; none: there is no transcript.
  explicit elastic_log(clock_text current_time = {}) : current_time_(std::move(current_time)) {}

  /// A line for people, made only where there is a transcript.
  template <class Text>
  void note(Text&& text) {
    if (current_time_)
      transcript_.push_back(current_time_() + " " + text());
  }
  void problem(const std::string& text);
  bool has_transcript() const { return static_cast<bool>(current_time_); }

  /// The rendezvous sends this.
  void welcomed(const welcome& greeting);
  /// The rendezvous has lost this slot's link although its process may live: it may come as a new one.
  void cut_off(std::int32_t slot) { cut_off_.insert(slot); }
  /// What it last wrote down it may have told nobody: one more generation may be missing here.
  void rendezvous_ended() { ++untold_; }
  /// From now on there may be two of one generation. What holds between generations is not looked at any
  /// more, but all that holds within one.
  void rendezvous_doubled() { doubled_ = true; }
  bool is_doubled() const { return doubled_; }

  void ran(const set_key& set, std::int32_t place, std::int32_t members, const lane_job& job);
  /// The operation of this name, the `count`th of it in this set, ended well with this result on a member.
  void brought(const set_key& set, const std::string& name, std::uint64_t count,
               const std::vector<std::int64_t>& result);
  /// That operation was on the fast path, where all members that are still there come to the same end.
  void ended_on_fast_path(const set_key& set, const std::string& name, std::uint64_t count, bool well);
  /// Operations that ended well on the fast path.
  std::uint64_t on_fast_path() const { return on_fast_path_; }
  /// A member leaves its generation by plan; says farewell to the rendezvous; and has left.
  void leaves(std::int32_t slot) { leaving_.insert(slot); }
  void farewell(std::int32_t slot) { told_so_.insert(slot); }
  void left(std::int32_t slot);
  /// Something goes wrong by intent: who leaves may not get to say so any more.
  void disturbed() { disturbed_ = true; }
  /// A member begins to train in a generation.
  void trains(const set_key& global, std::int32_t slot, const training_state& from);
  /// A member has heard that all have committed this state.
  void committed(const set_key& global, const training_state& state);

  std::uint64_t generations() const { return last_.generation; }
  const std::vector<std::string>& problems() const { return problems_; }
  const std::vector<std::string>& transcript() const { return transcript_; }
  /// Slots of the last generation, by rank.
  std::vector<std::int32_t> slots() const;
  std::uint64_t hash() const;

private:
  struct generation {
    welcome first;                         ///< as the first of its members was told
    std::vector<std::optional<bool>> late; ///< by rank, as far as they were told
    std::optional<training_state> begins;
  };
  void check_order(const generation& current);
  bool somebody_stayed(const generation& which) const;

  clock_text current_time_;
  set_key last_;                              ///< generation
  set_key before_;                            ///< the one before it that anybody was told of
  std::map<set_key, generation> generations_; ///< by their global sets
  std::map<set_key, chronicle> sets_;
  std::map<set_key, std::map<std::pair<std::string, std::uint64_t>, std::vector<std::int64_t>>> results_;
  std::map<set_key, std::map<std::pair<std::string, std::uint64_t>, bool>> rounds_; ///< ended well
  std::uint64_t on_fast_path_ = 0;
  std::uint64_t untold_ = 0; ///< generations that may have been, since the last one
  bool doubled_ = false;
  std::set<std::int32_t> cut_off_;
  std::set<std::int32_t> leaving_;
  std::set<std::int32_t> told_so_; ///< the rendezvous
  bool disturbed_ = false;
  std::set<std::int32_t> trained_; ///< slots that have had the state
  training_state safe_;            ///< what all had committed at last
  std::vector<std::string> problems_;
  std::vector<std::string> transcript_;
};

} // namespace farandole::testing
