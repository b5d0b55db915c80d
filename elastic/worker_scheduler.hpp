// Which workers an elastic job has: whom to start where, whom to let go, and when it is over. Hosts come and
// go and workers fail; as long as members are left that know the training's state, the job goes on. Plain
// decisions: the launcher feeds in what happened and does what comes out.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "elastic/drain.hpp"
#include "elastic/host_pool.hpp"

namespace farandole {

struct worker_scheduler_options {
  std::int32_t processes = 1; ///< the first start waits for so many slots
  std::int32_t fewest = 1;    ///< later generations need so many
  std::int32_t limit = 1;     ///< and have no more
  bool hosts_may_come = true; ///< otherwise the hosts are fixed: waiting for others is in vain
  std::optional<std::int32_t> reset_limit;
  std::chrono::nanoseconds timeout = std::chrono::seconds{600}; ///< for waiting for slots
  std::optional<blacklist::cooldown> cooldown;
};

/// Decides which workers of an elastic job run where. Has more than 30 methods because each event of a job
/// has one, and all of them read and change the same table of workers.
class worker_scheduler {
public:
  using time_point = host_pool::time_point;

  /// A worker to be started. `slot` is its number in the job: growing, never used for another one. `local` is
  /// the place on its host that it takes, and gives back when it ends.
  struct start {
    std::int32_t slot = 0;
    std::string host;
    std::int32_t local = 0;

    friend bool operator==(const start&, const start&) = default;
  };

  /// What to do now.
  struct step {
    std::vector<start> starts;
    std::vector<std::int32_t> retire;    ///< let these workers leave in order; how they end does not matter
    std::vector<std::string> lines;      ///< tell people
    std::optional<time_point> call_next; ///< call due() then
    bool complete = false;               ///< training has come to its end: nothing is started any more
    bool blacklisted = false;            ///< a host has come on the blacklist: keep failed_hosts()
    bool over = false;                   ///< the outcome is certain: end who is still running
  };

  struct failure {
    std::string worker; ///< "host[local]"
    int code = 0;
  };

  explicit worker_scheduler(const worker_scheduler_options& options)
      : options_(options), book_(options.cooldown) {}

  /// Before anything else: hosts that failed before this launcher was started again.
  step take_over(const std::vector<failed_host>& failed, time_point current_time, wall_time wall);
  /// Discovery has a result, which names no host twice; the same as before is no news.
  step hosts_found(const std::vector<host_slots>& found, time_point current_time);
  /// A worker's process has ended with this code; `uniform` in [0, 1) is for the blacklist.
  step ended(std::int32_t slot, int code, time_point current_time, double uniform);
  /// These slots are a generation from now on; none named: all that run.
  step generation_formed(std::uint64_t generation, const std::vector<std::int32_t>& slots,
                         time_point current_time);
  /// A worker that was told to end leaves by plan. Whoever leaves so is not replaced on its host: from then
  /// on that host has no more workers than it had left, until discovery names more slots for it than before.
  step leaving(std::int32_t slot, time_point current_time);
  /// People want some out: who leaves, or why nobody does; and what to do.
  std::pair<draining, step> drain_workers(const drain& asked, time_point current_time);
  /// The time asked for by `call_next` has come; an earlier call does nothing.
  step due(time_point current_time);
  /// The launcher was told to end: nothing is started any more.
  void stop() { over_ = true; }

  /// All hosts that ever were on the blacklist.
  std::vector<failed_host> failed_hosts(time_point current_time, wall_time wall) const {
    return book_.failed().image(current_time, wall);
  }
  /// Whether a failure of this worker counts: it is not leaving, and the others have not gone on without it.
  bool counts(std::int32_t slot) const;
  bool over() const { return over_; }
  /// The launcher's exit code, once the job is over.
  int code() const { return code_; }
  /// Of the last generation; what failed in one that others have outlived is forgiven.
  const std::optional<failure>& first_failure() const { return failure_; }

private:
  struct worker {
    std::string host;
    std::int32_t local = 0;
    bool retired = false;
    bool was_member = false; ///< of some generation

    std::string name() const { return host + "[" + std::to_string(local) + "]"; }
  };

  bool is_member(std::int32_t slot) const { return !formed_ || world_.contains(slot); }
  bool has_member() const;
  /// How many would stay with these hosts.
  bool keeps_member(const std::vector<host_slots>& found) const;
  std::int32_t living() const;
  std::int32_t living_on(const std::string& host) const;
  bool has_room(const host_slots& host) const;
  bool is_taken(const std::string& host, std::int32_t local) const;

  void fail(std::int32_t slot, const worker& worker_entry, int code, time_point current_time, double uniform,
            step& decision);
  void retire_surplus(step& decision);
  void forget_limits(const host_pool::change& change);
  void refill(time_point current_time, step& decision);
  void start_workers(const std::vector<host_slots>& usable, step& decision);
  void watch_size(bool enough, time_point current_time, step& decision);
  void end(int code, std::string line, step& decision);
  step& finish(time_point current_time, step& decision);
  std::string shortage() const;
  std::string hosts_text(time_point current_time) const;

  worker_scheduler_options options_;
  host_pool book_;
  std::map<std::int32_t, worker> workers_; ///< that have not ended
  std::int32_t next_slot_ = 0;
  bool started_ = false;
  bool formed_ = false; ///< there was a generation
  std::uint64_t generation_ = 0;
  std::set<std::int32_t> world_;               ///< the slots of the last generation
  std::map<std::int32_t, std::int32_t> ranks_; ///< by slot, in it
  std::map<std::string, std::int32_t> limits_; ///< most workers of hosts that some were drained from
  std::int32_t resets_ = 0;
  bool finishing_ = false; ///< a worker has come to its end: nothing is started any more
  bool over_ = false;
  bool emptiness_told_ = false;
  int code_ = 0;
  std::optional<failure> failure_;
  std::optional<time_point> deadline_; ///< for having enough slots
  std::optional<time_point> asked_;    ///< for due()
};

/// "Job … reset limit …": why a job of so many resets has ended, and what to do.
std::string reset_limit_text(std::int32_t limit);

} // namespace farandole
