// What a member's actors and its framework threads both look at: how far the member has come, and the objects
// that outlive the actors. Written by the actors, each field before the signal that publishes it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/process_set/guarded.hpp"
#include "actors/process_set/injected_fault.hpp"
#include "actors/process_set/lane.hpp"
#include "actors/submission/submission_queue.hpp"
#include "collectives/relay/relay_tree.hpp"
#include "collectives/transport/shm/heartbeat_words.hpp"
#include "collectives/transport/shm/shm_fast_path.hpp"
#include "messages/wire/heartbeat.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

struct mpi_job;

/// One process set as this process has it.
struct shared_set_state {
  // Set once, before the set can be found.
  std::uint32_t number = 0;                           ///< of envelopes
  std::uint32_t id = 0;                               ///< for people
  std::vector<std::int32_t> ranks;                    ///< global, ascending; empty: the global set
  set_epoch epoch;                                    ///< none for the global set
  std::shared_ptr<farandole::submission_queue> queue; ///< null where this process is no member
  std::shared_ptr<lane_thread> lane;                  ///< likewise

  /// Of this generation, once connected; null where there is none.
  guarded<std::shared_ptr<farandole::shm_fast_path>> fast_path;
};

/// The process sets of one member, the global one apart. Thread-safe; its lock is held for moments only.
class set_table {
public:
  using set_ptr = std::shared_ptr<shared_set_state>;

  /// Its door and lane exist: they are taken down with the runtime, if not before.
  void built(set_ptr set);
  /// Framework threads find it from now on, and no longer.
  void open(set_ptr set);
  void close(std::uint32_t id);
  /// It starts anew: who looks for it, and has been told, waits until it is opened or closed, at most for as
  /// long as the patience lasts.
  void suspend(std::uint32_t id);
  /// Nothing starts any more: nobody waits.
  void resume();
  void patience(std::chrono::nanoseconds longest);
  /// Its lane ends by itself soon: it waits for reap().
  void retire(const set_ptr& set);

  /// Null when there is none of this id. Framework threads.
  set_ptr find(std::uint32_t id) const;
  /// The epoch that callers have seen of this set; 0 when there is none.
  std::uint64_t epoch_seen(std::uint32_t id) const;
  /// Callers here learn otherwise than by an error that the set has started anew so often. Waits until it has
  /// here too, at most for as long as the patience lasts. Framework threads.
  bool acknowledge(std::uint32_t id, std::uint64_t epoch);
  /// Operations that each set has been given here since it last started, by id.
  std::map<std::uint32_t, std::uint64_t> submitted() const;
  std::map<std::uint32_t, std::vector<std::int32_t>> ranks() const;

  /// Joins the lanes of sets that have ended. Framework threads.
  void reap();
  /// Nothing enters any more, and all lanes end. Framework threads, at the end of the runtime.
  void shut();

private:
  mutable std::mutex guard_;
  mutable std::condition_variable resumed_;
  std::chrono::nanoseconds patience_{};
  std::map<std::uint32_t, set_ptr> open_;
  std::set<std::uint32_t> suspended_; ///< of those
  std::vector<set_ptr> built_;
  std::vector<set_ptr> retired_;
};

/// What one generation of this member is, constant once `standing::started` is set.
struct generation_facts {
  std::int32_t rank = 0;
  std::vector<member> members;
  std::shared_ptr<const relay_tree> tree; ///< who speaks with whom
  injected_faults faults;                 ///< tests only; none otherwise
  bool elastic = false;                   ///< members may come and go
  bool dynamic_sets = false;              ///< process sets may change after the start
  std::uint64_t generation = 0;
  std::string object_key;             ///< see object_key.hpp
  bool must_sync = true;              ///< members do not all stand at the same step with the same state
  bool joined_late = false;           ///< the job has run without this process
  bool sets_kept = false;             ///< the process sets are those of the generation before
  std::vector<kept_set> kept;         ///< those, by id; ranks
  std::shared_ptr<const mpi_job> mpi; ///< null where the job has none

  /// "rank 1 on alpha", for people.
  std::string name_of(std::int32_t rank) const;
};

/// How members wait to change. Any thread.
class membership_changes {
public:
  /// `count` changes wait for the end of this generation; `removals_only`: nobody waits to come in.
  void set(std::uint64_t count, bool removals_only);
  /// How many wait, and whether nobody waits to come in.
  std::pair<std::uint64_t, bool> waiting() const {
    const auto word = word_.load();
    return {word / 2, word % 2 == 1};
  }
  /// Until some change waits, at most for as long. Framework threads.
  void await(std::chrono::nanoseconds longest);

private:
  std::atomic<std::uint64_t> word_{0}; ///< twice the count, plus one for removals only
  std::mutex mutex_;
  std::condition_variable came_;
};

struct shared_member_state : generation_facts {
  std::shared_ptr<shared_set_state> global = std::make_shared<shared_set_state>();
  set_table sets;

  /// Kind none: this member is in. Anything else: why it is not.
  std::promise<error> started;
  /// The member has left, or its generation has ended, and its links are closed.
  std::promise<void> ended;

  /// Who has not come yet, as the rendezvous told last; for people. Empty before it has told anything.
  guarded<std::string> missing;
  /// Which member the data paths have not reached yet, and why; for people. Empty: none.
  guarded<std::string> unconnected;

  /// Of the members on this host, once connected; null where they share no memory. From the lane to the loop.
  guarded<std::shared_ptr<heartbeat_words>> heartbeats;
  /// Members whose processes make no progress, as was seen last. Any thread.
  guarded<std::vector<silence>> silent;
  /// What is known of these members, to follow the error of an operation that has waited for them for too
  /// long. Who makes progress may still be late.
  std::string silence_notice(const std::set<std::int32_t>& ranks) const;

  std::atomic<bool> alive{false};
  membership_changes changes;
  std::atomic<std::uint64_t> bundles{0};
  std::atomic<std::uint64_t> bytes_moved{0};
};

} // namespace farandole
