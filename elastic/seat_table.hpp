// Each slot of a job has a seat, which a process takes, leaves and may take again by another link. The table
// knows which process has which seat, by which link it speaks, and whether the next generation waits for it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "messages/wire/job_image.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

/// Names one way to reach a member (a link); chosen by the caller, never reused.
using route = std::uint64_t;

struct member_seat {
  std::string host; ///< as expect() said
  std::optional<route> link;
  hello announced;
  bool in_generation = false; ///< has not left since the generation began
  bool awaited = false;       ///< the next generation does not start without it
  bool retired = false;       ///< is to leave
  bool ended = false;         ///< its process is gone for good
  bool untold = false;        ///< is in by the word of an earlier rendezvous, which may have told nobody
  std::string end_reason;
  std::int32_t last_rank = -1; ///< of the last generation, unless it was lost in it
  /// By which it was in the running generation before the process came again. Either a farewell comes by
  /// it, or it ends, and the others have lost this member.
  std::optional<route> earlier;

  /// In the generation, by the word of an earlier rendezvous, and not come back yet.
  bool is_absent() const { return in_generation && !link; }
  /// Has said hello, and may be in the next generation once none runs.
  bool is_present() const { return link && !retired; }
  /// Can be in a later generation.
  bool is_usable() const { return !ended && !retired; }
  /// Whether this process had the seat when it said hello last.
  bool is_of(const std::string& host, std::int64_t process) const {
    return announced.process == process && announced.host == host;
  }
};

class seat_table {
public:
  /// Makes a seat if the slot has none, which it returns. `host`: its name, for people; empty: not known.
  bool expect(std::int32_t slot, const std::string& host);
  /// Null: the slot has no seat.
  const member_seat* find(std::int32_t slot) const;
  member_seat* find(std::int32_t slot);
  const member_seat& at(std::int32_t slot) const { return seats_.at(slot); }
  member_seat& at(std::int32_t slot) { return seats_.at(slot); }
  // By slot, ascending.
  auto begin() const { return seats_.begin(); }
  auto begin() { return seats_.begin(); }
  auto end() const { return seats_.end(); }
  auto end() { return seats_.end(); }

  /// Whose link this is; nothing: nobody's who is in, or waits to be.
  std::optional<std::int32_t> slot_of(route from) const;
  /// Whose link this is, or was in the generation that runs.
  std::optional<std::int32_t> reporter_of(route from) const;
  /// The link by which the very process that says hello is still a member.
  std::optional<route> link_of_same_process(const hello& request) const;
  bool some_present() const;
  /// Those who have said hello and are not to leave.
  std::map<std::int32_t, route> present() const;
  /// Whether nobody is in the generation any more.
  bool all_left() const;
  /// The slot whose process ended before all others.
  std::optional<std::int32_t> first_ended() const { return first_ended_; }

  /// The slot's process has ended, for good.
  void end_process(std::int32_t slot, const std::string& reason);
  /// The next generation does not wait for those that have no link; `in_generation_only`: of them, for those
  /// who are in the generation that runs. Returns their slots.
  std::vector<std::int32_t> give_up_missing(bool in_generation_only);
  /// A generation starts with these. `elastic`: the next one does not wait for others.
  void start_generation(const std::vector<std::int32_t>& slots_by_rank, bool elastic);

  /// As an earlier rendezvous kept them; nobody has a link. Other seats stay as they are.
  void restore(const std::vector<seat_image>& images);
  std::vector<seat_image> image(bool running) const;

private:
  std::map<std::int32_t, member_seat> seats_;
  std::optional<std::int32_t> first_ended_;
};

} // namespace farandole
