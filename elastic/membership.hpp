// Who is in the job, since which generation, with which rank. The rendezvous feeds in what it hears and does
// what comes out. A generation starts when every slot that counts has said hello and ends when a member is
// lost or all have left; then the slots may say hello again. Plain decisions: no sockets, no clock.
//
// In a job that is not elastic the slots are 0..size-1, and all of them count. In an elastic one:
//
//   said hello ─▶ waiting ─(nobody that counts is missing, and there are enough)─▶ in ─▶ lost, or left
//        ▲                                                                          │
//        └──────────── survivors, and who left only because members change ◀────────┘
//
// Who is waited for: the members of the generation before that were not lost, have not ended, and are not to
// leave. New ones come in when members change for whatever reason; members in are told that some wait, and
// end their generation together at a commit.
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
#include "elastic/seat_table.hpp"
#include "messages/wire/job_image.hpp"
#include "messages/wire/membership.hpp"
#include "messages/wire/rendezvous_recovery.hpp"

namespace farandole {

class membership {
public:
  membership(membership_rules rules, std::uint64_t epoch);

  /// The job that an earlier rendezvous had, which nobody has a link to yet: members that were in come back.
  static membership restored(const job_image& image, std::uint64_t epoch);
  /// All of it, to go on from elsewhere. Its `launcher` is left to the caller.
  job_image image() const;
  /// As long as it stays the same, so does the image, which costs more than to ask.
  std::uint64_t revision() const { return revision_; }

  /// Elastic: this slot's process was started, or is about to be; others are turned away. In every job:
  /// `host` is the name of its host, for people; empty if it is not known.
  void expect(std::int32_t slot, const std::string& host = {});

  /// Elastic: this slot is to leave by plan. It stays until all members leave the generation.
  membership_decision retire(std::int32_t slot);

  /// Elastic: no process is started any more. Who was in, and waits for a generation that can no longer have
  /// enough members, is turned away, now or later.
  membership_decision nobody_comes();

  /// A member asks to be in the next generation. Refused with the reason when its wire version, size or slot
  /// cannot be, when its slot is taken by another process, or when it is not wanted any more.
  membership_decision join(route from, const hello& request);

  /// A member leaves in order.
  membership_decision leave(route from, std::uint64_t generation);

  /// A link ended. A loss unless the member had left.
  membership_decision disconnect(route from, const std::string& reason);

  /// The process of a slot has ended, for good. A loss unless its member had left.
  membership_decision exit(std::int32_t slot, const std::string& reason);

  /// A member reports that `loss.rank` (itself, or another whose link it has lost) cannot be reached or
  /// cannot go on. A loss unless that one had left, or the reporter is no member of that generation. Elastic:
  /// one that is `stuck` is not waited for, and may come later, as a new one.
  membership_decision report(route from, const lost& loss);

  /// A member of the running generation has lost its link, and has another one now. Resumed, or told that its
  /// generation has ended meanwhile, or refused with the reason.
  membership_decision come_back(route from, const returning& request);

  /// Elastic: those that this ended generation's successor still waits for have had their time. They may come
  /// later, as new ones. Where the generation runs on: who is in it and has not come back is lost.
  membership_decision give_up_waiting(std::uint64_t generation);

  std::uint64_t epoch() const { return epoch_; }
  /// Whose link this is; nothing: nobody's who is in, or waits to be.
  std::optional<std::int32_t> slot_of(route from) const { return seats_.slot_of(from); }
  std::uint64_t generation() const { return generation_.number(); }
  bool running() const { return generation_.running(); }
  /// Of the members of the generation that runs, or of the last one, by rank.
  const std::vector<std::int32_t>& slots() const { return generation_.slots(); }
  bool knows(std::int32_t slot) const { return seats_.find(slot) != nullptr; }
  /// Some members wait for others: no generation runs, and somebody has said hello.
  bool forming() const { return !running() && seats_.some_present(); }
  /// Those who wait, by slot.
  std::map<std::int32_t, route> waiting() const;
  /// Who is waited for, by slot. `size` counts members that no slot is known of yet, too; `waited_seconds`
  /// and `report` are left to the caller.
  awaited missing() const { return formation_.missing(seats_, generation_); }

private:
  void take_seat(route from, const hello& request, membership_decision& decision);
  void start_if_ready(membership_decision& decision);
  /// A loss, if the slot's member is in the generation that runs.
  void lose(std::int32_t slot, const std::string& reason, membership_decision& decision);
  void end_generation(std::int32_t culprit, const std::string& reason, membership_decision& decision);
  void change(bool removal, membership_decision& decision);
  /// `culprit`: the slot that ended, if that is the reason.
  void refuse_waiting(const std::string& reason, membership_decision& decision, std::int32_t culprit = -1);

  formation formation_;
  seat_table seats_;
  generation_record generation_; ///< that runs, or else the last one
  std::uint64_t epoch_;
  std::uint64_t revision_ = 1; ///< goes up with whatever image() tells
};

} // namespace farandole
