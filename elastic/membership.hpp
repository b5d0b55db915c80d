// The members of the job, their generation and their ranks. The rendezvous feeds in events and carries out the
// returned decisions. A generation starts when every awaited slot has said hello (sent its Hello message), and
// ends when a member is lost or all members have left; then the slots may say hello again. Pure decisions: no
// sockets, no clock.
//
// In a job that is not elastic the slots are 0..size-1, and all of them are awaited. In an elastic job:
//
//   said hello ─▶ waiting ─(no awaited slot is missing, and there are enough)─▶ member ─▶ lost, or left
//        ▲                                                                         │
//        └───── survivors, and members that left only because members change ◀─────┘
//
// The next generation awaits those members of the previous one that were not lost, have not ended and need not leave.
// New processes join whenever the members change for any reason. Running members are notified that new ones
// wait, and end their generation together at a commit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "elastic/formation.hpp"
#include "elastic/generation_record.hpp"
#include "elastic/membership_decision.hpp"
#include "elastic/membership_rules.hpp"
#include "elastic/slot_table.hpp"
#include "messages/wire/job_image.hpp"
#include "messages/wire/membership.hpp"
#include "messages/wire/rendezvous_recovery.hpp"

namespace farandole {

class membership {
public:
  membership(membership_rules rules, std::uint64_t epoch);

  /// Restores the job of an earlier rendezvous. No member has a link yet; those of the running generation
  /// reconnect by come_back().
  static membership restored(const job_image& image, std::uint64_t epoch);
  /// The complete state, for restored(). The caller sets its `launcher`.
  job_image image() const;
  /// Changes whenever image() does, and is cheaper to compare.
  std::uint64_t revision() const { return revision_; }

  /// Elastic: this slot's process was started, or is about to be; processes of other slots are refused. In
  /// every job: `host` is the name of its host, for messages; empty if it is not known.
  void expect(std::int32_t slot, const std::string& host = {});

  /// Elastic: this slot is to leave by plan. A member stays until all members leave the generation.
  membership_decision retire(std::int32_t slot);

  /// Elastic: no more processes will be started. A former member that waits for a generation that can no
  /// longer have enough members is refused, now or later.
  membership_decision no_more_starts();

  /// A process asks to be in the next generation. It is refused with the reason if its wire version, size or
  /// slot is invalid, if another process has its slot, or if its slot has ended or is to leave.
  membership_decision join(link_id from, const hello& request);

  /// A member leaves in order.
  membership_decision leave(link_id from, std::uint64_t generation);

  /// A link ended. This is a loss unless the member had left.
  membership_decision disconnect(link_id from, const std::string& reason);

  /// The process of a slot has ended for good. This is a loss unless its member had left.
  membership_decision exit(std::int32_t slot, const std::string& reason);

  /// A member reports that the member `loss.rank` (itself, or another whose link it has lost) cannot be
  /// reached or cannot continue. This is a loss unless that member had left, or the reporter is not in that
  /// generation. Elastic: the next generation does not wait for a `stuck` member, which may join later as a
  /// new one.
  membership_decision report(link_id from, const lost& loss);

  /// A member of the running generation has lost its link and reconnects over another. It is resumed, is
  /// notified that its generation has ended meanwhile, or is refused with the reason.
  membership_decision come_back(link_id from, const returning& request);

  /// Elastic: the time to wait for members after `generation` has passed. If it has ended, its successor waits
  /// for them no longer; they may join later as new ones. If it still runs, its members that have not
  /// reconnected are lost.
  membership_decision give_up_waiting(std::uint64_t generation);

  std::uint64_t epoch() const { return epoch_; }
  /// The slot of the member, or waiting process, with this link; empty if there is none.
  std::optional<std::int32_t> slot_of(link_id from) const { return slots_.slot_of(from); }
  std::uint64_t generation() const { return generation_.number(); }
  bool running() const { return generation_.running(); }
  /// The slots of the running generation, or of the last one, by rank.
  const std::vector<std::int32_t>& slots() const { return generation_.slots(); }
  bool knows(std::int32_t slot) const { return slots_.find(slot) != nullptr; }
  /// Whether some processes wait for others: no generation runs, and at least one has said hello.
  bool forming() const { return !running() && slots_.some_present(); }
  /// The links of the processes that wait, by slot.
  std::map<std::int32_t, link_id> waiting() const;
  /// The members that the next generation waits for, by slot. `size` also counts members whose slots are not
  /// known yet. The caller sets `waited_seconds` and `report`.
  awaited missing() const { return formation_.missing(slots_, generation_); }

private:
  void take_slot(link_id from, const hello& request, membership_decision& decision);
  void start_if_ready(membership_decision& decision);
  /// Ends the running generation by a loss if the slot's member is in it.
  void lose(std::int32_t slot, const std::string& reason, membership_decision& decision);
  void end_generation(std::int32_t culprit, const std::string& reason, membership_decision& decision);
  void change(bool removal, membership_decision& decision);
  /// `culprit`: the slot whose end is the reason; -1 if there is none.
  void refuse_waiting(const std::string& reason, membership_decision& decision, std::int32_t culprit = -1);

  formation formation_;
  slot_table slots_;
  generation_record generation_; ///< the running one, or else the last one
  std::uint64_t epoch_;
  std::uint64_t revision_ = 1; ///< incremented whenever image() changes
};

} // namespace farandole
