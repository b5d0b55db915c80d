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
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "elastic/ranking.hpp"
#include "elastic/set_register.hpp"
#include "messages/job_image.hpp"
#include "messages/membership.hpp"
#include "messages/reunion.hpp"

namespace farandole {

/// Names one way to reach a member (a link); chosen by the caller, never reused.
using route = std::uint64_t;

/// What to tell whom.
struct membership_decision {
  struct refusal {
    route to;
    refused why;
  };
  struct admission {
    route to;
    std::int32_t rank = 0;
    bool joined_late = false;
  };
  struct notice {
    route to;
    farandole::lost lost;
  };
  struct warning {
    route to;
    farandole::changed changed;
  };
  struct resumption {
    route to;
    resumed what;
  };
  std::vector<refusal> refusals;
  std::vector<admission> admissions;
  farandole::roster roster; ///< what all are told who are admitted
  std::vector<notice> notices;
  std::vector<warning> warnings;
  std::vector<resumption> resumptions;
  /// A slot's part in the job ends because another slot was lost.
  struct consequence {
    std::int32_t slot = 0;
    std::int32_t culprit = 0;

    friend bool operator==(const consequence&, const consequence&) = default;
  };
  std::vector<consequence> consequences;
  std::uint64_t superseded_by = 0; ///< members obey another rendezvous, of this epoch: this one has no say
  route superseded_from = 0;       ///< who says so
};

struct membership_rules {
  std::int32_t size = 1; ///< with so many it starts
  bool elastic = false;
  std::int32_t least = 1; ///< elastic: no later generation has fewer
  std::int32_t most = 1;  ///< elastic: none has more
};

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

  /// A member reports that `what.rank` (itself, or another whose link it has lost) cannot be reached or
  /// cannot go on. A loss unless that one had left, or the reporter is no member of that generation. Elastic:
  /// one that is `stuck` is not waited for, and may come later, as a new one.
  membership_decision report(route from, const lost& what);

  /// A member of the running generation has lost its link, and has another one now. Resumed, or told that its
  /// generation has ended meanwhile, or refused with the reason.
  membership_decision come_back(route from, const returning& who);

  /// Elastic: those that this ended generation's successor still waits for have had their time. They may come
  /// later, as new ones. Where the generation runs on: who is in it and has not come back is lost.
  membership_decision give_up_waiting(std::uint64_t generation);

  std::uint64_t epoch() const { return epoch_; }
  /// Whose link this is; nothing: nobody's who is in, or waits to be.
  std::optional<std::int32_t> slot_of(route from) const;
  std::uint64_t generation() const { return generation_; }
  bool running() const { return running_; }
  /// Of the members of the generation that runs, or of the last one, by rank.
  const std::vector<std::int32_t>& slots() const { return slots_by_rank_; }
  bool knows(std::int32_t slot) const { return seats_.contains(slot); }
  /// Some members wait for others: no generation runs, and somebody has said hello.
  bool forming() const;
  /// Those who wait, by slot.
  std::map<std::int32_t, route> waiting() const;
  /// Who is waited for, by slot. `size` counts members that no slot is known of yet, too; `waited_seconds`
  /// and `report` are left to the caller.
  awaited missing() const;

private:
  struct seat {
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
  };

  seat* seat_of(route from, std::int32_t* slot = nullptr);
  /// Whose link this is, or was in the generation that runs.
  std::optional<std::int32_t> reporter_of(route from) const;
  /// The link by which this very process is still a member.
  std::optional<route> same_process(const hello& request) const;
  std::optional<refused> objection(const hello& request) const;
  void start_if_ready(membership_decision& out);
  bool may_start(std::size_t waiting) const;
  bool somebody_knows(const std::vector<candidate>& waiting, membership_decision& out);
  bool holds_state(const candidate& one) const;
  bool was_in_last(std::int32_t slot) const;
  bool nobody_returns() const;
  void refuse_if_in_vain(membership_decision& out);
  void take_as_new_who_begins_anew(std::vector<candidate>& waiting);
  void take_as_new(std::vector<candidate>& waiting, const std::function<bool(const candidate&)>& goes_on);
  void start_generation(std::vector<candidate> chosen, membership_decision& out);
  /// Before the seats take their new ranks.
  surviving_sets surviving_sets_of(const std::vector<member>& all) const;
  void end_generation(std::int32_t slot, const std::string& reason, membership_decision& out);
  void end_running(std::int32_t slot, const std::string& reason, membership_decision& out);
  void end_if_all_left();
  void change(bool removal, membership_decision& out);
  membership_decision give_up_absent();
  /// In the generation, by the word of an earlier rendezvous, and not come back yet.
  static bool is_absent(const seat& one) { return one.in_generation && !one.link; }
  bool is_known_as(const seat& one, const std::string& host, std::int64_t process) const;
  /// `culprit`: the slot that ended, if that is the reason.
  void refuse_waiting(const std::string& reason, membership_decision& out, std::int32_t culprit = -1);

  membership_rules rules_;
  std::map<std::int32_t, seat> seats_;
  std::vector<std::int32_t> slots_by_rank_; ///< of the last generation
  std::optional<std::int32_t> first_ended_; ///< the slot whose process ended before all others
  std::uint64_t epoch_;
  std::uint64_t generation_ = 0;
  std::uint64_t changes_ = 0; ///< in this generation
  bool removals_only_ = true; ///< those were
  bool lost_somebody_ = true; ///< the next generation's members do not all stand at the same step
  bool running_ = false;
  /// Of the newest training state that a member of the last generation had when it began; 0: none had any.
  std::uint64_t state_generation_ = 0;
  bool nobody_comes_ = false;  ///< but those who are known
  std::uint64_t revision_ = 1; ///< goes up with whatever image() tells
};

} // namespace farandole
