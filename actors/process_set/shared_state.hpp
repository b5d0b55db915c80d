// The state that a member's actors share with its framework threads: how far the member has come, and the objects
// that outlive the actors. The actors write each field before the signal that publishes it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/gpu/device_ledger.hpp"
#include "actors/gpu/launch_clock.hpp"
#include "actors/gpu/process_gpus.hpp"
#include "actors/process_set/guarded.hpp"
#include "actors/process_set/injected_fault.hpp"
#include "actors/process_set/lane.hpp"
#include "actors/submission/submission_queue.hpp"
#include "collectives/relay/relay_tree.hpp"
#include "collectives/transport/shm/heartbeat_words.hpp"
#include "collectives/transport/shm/shm_fast_path.hpp"
#include "messages/record/event_recorder.hpp"
#include "messages/wire/heartbeat.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

struct mpi_job;
class nvtx_ranges;

/// One process set, as seen by this process.
struct shared_set_state {
  // Set once, before the set can be found.
  std::uint32_t number = 0;                           ///< in envelopes
  std::uint32_t id = 0;                               ///< for users
  std::vector<std::int32_t> ranks;                    ///< global, ascending; empty: the global set
  set_epoch epoch;                                    ///< none for the global set
  std::shared_ptr<farandole::submission_queue> queue; ///< null where this process is no member
  std::shared_ptr<lane_thread> lane;                  ///< likewise

  /// Of this generation; null until it is connected, and where there is none.
  guarded<std::shared_ptr<farandole::shm_fast_path>> fast_path;

  /// Fails all operations, when the actors that would settle them are gone. For the event loop: `busy` must be tried again.
  submission_queue::attempt fail(const error& reason) const;
};

/// The process sets of one member, except the global one. Thread-safe; its lock is only held briefly.
class set_table {
public:
  using set_ptr = std::shared_ptr<shared_set_state>;

  /// Adds a set whose submission queue and lane exist. They are taken down with the runtime, if not before.
  void built(set_ptr set);
  /// From open() until close(), framework threads find the set.
  void open(set_ptr set);
  void close(std::uint32_t id);
  /// The set restarts. A caller of find() that has been told of the failure waits until open() or close(), at most
  /// for as long as the patience lasts.
  void suspend(std::uint32_t id);
  /// No set will start any more: ends all waits for restarts.
  void resume();
  /// Sets the maximum time to wait for a restart.
  void patience(std::chrono::nanoseconds longest);
  /// The set has ended, and its lane finishes by itself; reap() joins it.
  void retire(const set_ptr& set);

  /// Null if there is no set of this id. Framework threads.
  set_ptr find(std::uint32_t id) const;
  /// The epoch of this set that its callers have seen; 0 if there is no such set.
  std::uint64_t epoch_seen(std::uint32_t id) const;
  /// The callers of this process have learned, by other means than an error, that the set has restarted `epoch`
  /// times. Waits until it has done so on this member too, at most for as long as the patience lasts. False if it
  /// has not. Framework threads.
  bool acknowledge(std::uint32_t id, std::uint64_t epoch);
  /// Number of operations submitted to each set here since its last start, by id.
  std::map<std::uint32_t, std::uint64_t> submitted() const;
  std::map<std::uint32_t, std::vector<std::int32_t>> ranks() const;

  /// As shared_set_state::fail(), for all sets; no set starts afterwards.
  submission_queue::attempt fail(const error& reason);

  /// Joins the lanes of sets that have ended. Framework threads.
  void reap();
  /// Closes all submission queues and stops all lanes. Framework threads, at the end of the runtime.
  void shut();

private:
  mutable std::mutex guard_;
  mutable std::condition_variable resumed_;
  std::chrono::nanoseconds patience_{};
  std::map<std::uint32_t, set_ptr> open_;
  std::set<std::uint32_t> suspended_; ///< ids of the open sets that restart
  std::vector<set_ptr> built_;
  std::vector<set_ptr> retired_;
};

/// Facts about one generation of this member, constant once shared_member_state::started is set.
struct generation_facts {
  std::int32_t rank = 0;
  std::vector<member> members;
  std::shared_ptr<const relay_tree> tree; ///< which ranks forward messages for which others
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

  /// "rank 1 on alpha", for messages to users.
  std::string name_of(std::int32_t rank) const;
};

/// The pending changes of membership. Any thread.
class membership_changes {
public:
  /// `count` changes wait for the end of this generation; `removals_only`: none of them adds a member.
  void set(std::uint64_t count, bool removals_only);
  /// The number of pending changes, and whether none of them adds a member.
  std::pair<std::uint64_t, bool> waiting() const {
    const auto word = word_.load();
    return {word / 2, word % 2 == 1};
  }
  /// Waits until a change is pending, but at most for `longest`. Framework threads.
  void await(std::chrono::nanoseconds longest);

private:
  std::atomic<std::uint64_t> word_{0}; ///< twice the count, plus one for removals only
  std::mutex mutex_;
  std::condition_variable came_;
};

struct shared_member_state : generation_facts {
  std::shared_ptr<shared_set_state> global = std::make_shared<shared_set_state>();
  set_table sets;

  /// Kind none: this member has joined. Otherwise: why it has not.
  std::promise<error> started;
  /// The member has left, or its generation has ended, and its links are closed.
  std::promise<void> ended;

  /// The members that are still missing, as the rendezvous last reported; for messages to users. Empty before its
  /// first report.
  guarded<std::string> missing;
  /// The member that the data paths have not reached yet, and why; for messages to users. Empty: none.
  guarded<std::string> unconnected;

  /// Of the members on this host; null until connected, and where they share no memory. The lane sets it for the
  /// event loop.
  guarded<std::shared_ptr<heartbeat_words>> heartbeats;
  /// The members whose processes make no progress, as last observed. Any thread.
  guarded<std::vector<silence>> silent;
  /// Describes those of `ranks` that are silent, as an addition to the error of an operation that has waited for them
  /// for too long. A member that makes progress may be late as well; it is not mentioned.
  std::string silence_notice(const std::set<std::int32_t>& ranks) const;

  /// The steady clock of the member above this one in the tree of relays, if that is on another host. Any thread.
  guarded<std::optional<recorded_clock>> clock_above;

  /// The event record of this process; never null. Set before the actors start.
  std::shared_ptr<event_recorder> recorder = std::make_shared<event_recorder>(nullptr);
  const std::shared_ptr<runtime_launchers> launchers = std::make_shared<runtime_launchers>();
  /// On the leader: counts the bundles of all process sets in the order of launches; never null.
  const std::shared_ptr<farandole::launch_clock> launch_clock = std::make_shared<farandole::launch_clock>();
  /// The order in which the lanes of all process sets launch work on devices; never null.
  const std::shared_ptr<launch_order> launches = std::make_shared<launch_order>();
  /// The bundles of all process sets on which devices still work; never null.
  const std::shared_ptr<farandole::device_ledger> device_ledger =
      std::make_shared<farandole::device_ledger>();
  /// The ranges for a profiler; null if none listens. Set before the actors start.
  std::shared_ptr<const nvtx_ranges> ranges;

  std::atomic<bool> alive{false};
  membership_changes changes;
  std::atomic<std::uint64_t> bundles{0};
  std::atomic<std::uint64_t> bytes_moved{0};
};

} // namespace farandole
