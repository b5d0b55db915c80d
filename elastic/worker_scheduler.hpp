// The workers of an elastic job: which ones to start on which hosts, which ones to retire, and when the job is
// over. Hosts come and go and workers fail; the job continues as long as a member remains that has the
// training state. Pure decisions: the launcher feeds in events and carries out the returned steps.
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
  std::int32_t processes = 1; ///< the first start waits for this many slots
  std::int32_t fewest = 1;    ///< minimum for later generations
  std::int32_t limit = 1;     ///< maximum number of workers
  bool hosts_may_come = true; ///< false: the hosts are fixed, so waiting for others is useless
  std::optional<std::int32_t> reset_limit;
  std::chrono::nanoseconds timeout = std::chrono::seconds{600}; ///< for waiting for slots
  std::optional<blacklist::cooldown> cooldown;
  /// The workers serve calls of the program that has called the launcher, until that program ends the job by resize(0).
  /// It keeps the state, so that any worker may be replaced: also the last one, and one that exits with code 0.
  bool serves_calls = false;
};

/// Decides which workers of an elastic job run on which hosts. Has more than 30 methods because each event of
/// a job has one, and all of them read and change the same table of workers.
class worker_scheduler {
public:
  using time_point = host_pool::time_point;

  /// A worker to be started. `slot` is its number in the job, which grows and is never reused. `local` is its
  /// place on its host, which is free again when it ends.
  struct start {
    std::int32_t slot = 0;
    std::string host;
    std::int32_t local = 0;

    friend bool operator==(const start&, const start&) = default;
  };

  /// The actions to take after an event.
  struct step {
    std::vector<start> starts;
    std::vector<std::int32_t> retire;    ///< let these workers leave in order; their exit codes do not matter
    std::vector<std::string> lines;      ///< messages for the user
    std::optional<time_point> call_next; ///< call due() then
    bool complete = false;               ///< training has finished: no more workers are started
    bool blacklisted = false;            ///< a host was blacklisted: store failed_hosts()
    bool over = false;                   ///< the outcome is certain: end all running workers
    bool timed_out = false;              ///< it is over because enough slots did not come in time
  };

  struct failure {
    std::string worker; ///< "host[local]"
    int code = 0;
  };

  explicit worker_scheduler(const worker_scheduler_options& options)
      : options_(options), host_pool_(options.cooldown) {}

  /// To be called first: the hosts that failed before this launcher was restarted.
  step take_over(const std::vector<failed_host>& failed, time_point current_time, wall_time wall);
  /// Discovery has a result, which names no host twice and may be unchanged.
  step hosts_found(const std::vector<host_slots>& found, time_point current_time);
  /// A worker's process has ended with this code; `uniform` in [0, 1) is jitter for the blacklist.
  step ended(std::int32_t slot, int code, time_point current_time, double uniform);
  /// A generation of these slots has formed; an empty list means all workers that are not to leave.
  step generation_formed(std::uint64_t generation, const std::vector<std::int32_t>& slots,
                         time_point current_time);
  /// A worker that was told to end leaves by plan. It is not replaced on its host: the host is limited to its
  /// remaining workers until discovery reports more slots for it than before.
  step leaving(std::int32_t slot, time_point current_time);
  /// The user drains workers. Returns the leavers, or why no worker leaves, and the actions to take.
  std::pair<draining, step> drain_workers(const drain& asked, time_point current_time);
  /// The job is to have this number of workers from now on: the last ones to have been started leave by plan, or others
  /// are started where hosts have free slots. 0: the workers are about to end, and no more are started.
  step resize(std::int32_t count, time_point current_time);
  /// To be called at the time in `call_next`; an earlier call does nothing.
  step due(time_point current_time);
  /// The launcher was told to end: no more workers are started.
  void stop() { over_ = true; }

  /// All hosts that were ever on the blacklist.
  std::vector<failed_host> failed_hosts(time_point current_time, wall_time wall) const {
    return host_pool_.failed().image(current_time, wall);
  }
  /// Whether a failure of this worker counts: it is not leaving, and the others have not continued without it.
  bool counts(std::int32_t slot) const;
  bool over() const { return over_; }
  /// The launcher's exit code, once the job is over.
  int code() const { return code_; }
  /// The first failure in the last generation. Failures of generations that others outlived do not count.
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
  /// Whether a member remains that has the state of the training.
  bool has_member() const;
  /// Ends the job if it has finished, and no worker is left that could still do something for it.
  void end_if_finished(step& decision);
  /// Whether at least one member would stay if discovery found these hosts.
  bool keeps_member(const std::vector<host_slots>& found) const;
  std::int32_t living() const;
  std::int32_t living_on(const std::string& host) const;
  bool has_room(const host_slots& host) const;
  bool is_taken(const std::string& host, std::int32_t local) const;

  void fail(std::int32_t slot, const worker& worker_entry, int code, time_point current_time, double uniform,
            step& decision);
  void retire_surplus(step& decision);
  void retire_last(std::int32_t count, step& decision);
  void forget_limits(const host_pool::change& change);
  void refill(time_point current_time, step& decision);
  void start_workers(const std::vector<host_slots>& usable, step& decision);
  void watch_size(bool enough, time_point current_time, step& decision);
  void end(int code, std::string line, step& decision);
  step& finish(time_point current_time, step& decision);
  std::string shortage() const;
  std::string hosts_text(time_point current_time) const;

  worker_scheduler_options options_;
  host_pool host_pool_;
  std::map<std::int32_t, worker> workers_; ///< workers that have not ended
  std::int32_t next_slot_ = 0;
  bool started_ = false;
  bool formed_ = false; ///< a generation has formed
  std::uint64_t generation_ = 0;
  std::set<std::int32_t> world_;               ///< the slots of the last generation
  std::map<std::int32_t, std::int32_t> ranks_; ///< by slot, in the last generation
  std::map<std::string, std::int32_t> limits_; ///< maximum workers of hosts from which some left by plan
  std::int32_t resets_ = 0;
  bool finishing_ = false; ///< a worker has finished its training: no more are started
  bool over_ = false;
  bool emptiness_told_ = false;
  int code_ = 0;
  std::optional<failure> failure_;
  std::optional<time_point> deadline_; ///< for having enough slots
  std::optional<time_point> asked_;    ///< time of the requested due()
};

/// The message for a job that has ended because of its reset limit, with advice.
std::string reset_limit_text(std::int32_t limit);

} // namespace farandole
