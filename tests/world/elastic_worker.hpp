// One worker process of a simulated elastic job: a real member for each generation, and a training function
// in a loop like bindings/python/farandole/common/elastic/loop.py, with rounds of allreduces, commits, and
// the steps into the next generation after a change.
#pragma once

#include <caf/all.hpp>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/event_loop/log.hpp"
#include "actors/launch/process.hpp"
#include "actors/process_set/shared_state.hpp"
#include "elastic/join_deadline.hpp"
#include "elastic/join_retry.hpp"
#include "messages/settings/settings.hpp"
#include "messages/wire/set_change.hpp"
#include "tests/world/elastic_log.hpp"
#include "tests/world/elastic_play.hpp"
#include "tests/world/silence_watch.hpp"
#include "tests/world/simulated_net.hpp"

namespace farandole::testing {

/// The objects that all workers share.
struct elastic_stage {
  simulation& world;
  caf::actor_system& system;
  const elastic_options& options;
  simulated_net& net;
  data_plane& plane;
  elastic_log& log;
  silence_watch& silences;
  settings values;
  std::string rendezvous_ip;
  std::uint16_t rendezvous_port = 0;
};

class elastic_worker {
public:
  using duration = std::chrono::nanoseconds;

  /// `ended`: called once, when the process has ended.
  elastic_worker(elastic_stage& stage, std::int32_t slot, std::string host,
                 std::function<void(const process_end&)> ended);
  elastic_worker(const elastic_worker&) = delete;
  elastic_worker& operator=(const elastic_worker&) = delete;
  ~elastic_worker();

  static process_id id_of(std::int32_t slot) { return slot + 1; }

  void start();
  /// Ends the process at once, without further messages.
  void kill(int signal);
  static constexpr std::uint64_t slowness = 100;
  void slow_down() { slow_ = slowness; }
  /// Stop and continue the process like SIGSTOP and SIGCONT.
  void stop();
  void proceed();

  std::int32_t slot() const { return slot_; }
  bool runs() const { return started_ && !gone_; }
  bool finished() const { return state_.round >= stage_.options.rounds; }
  /// The reason if the process failed by itself; otherwise of kind `none`.
  const error& failure() const { return failure_; }
  /// Nothing if the process is in no generation, or is joining or leaving one.
  std::optional<silence_watch::waiting_member> waiting_now() const;
  /// The slots of the members of its generation, by rank.
  std::vector<std::int32_t> slots_with_it() const;
  /// Checks that every operation was settled exactly once.
  void check_settled();

private:
  struct asked {
    std::string name;
    operation_state_ptr operation;
    std::vector<std::int64_t> in, output;
    int settled = 0;
    set_key set;
    std::uint64_t count = 0; ///< number of earlier operations of this name in this set
    caf::actor_clock::time_point since;
  };
  /// The steps before the next call of the training function.
  struct next {
    bool reset = false;
    bool sync = true;
  };
  using then = std::function<void()>;
  using answer = std::function<void(const asked&, const error&)>;

  void after(duration when, then continuation);
  void think(then continuation);

  // The runtime.
  void begin();
  void start_runtime();
  void init();
  void await_start(duration wait);
  void started(const error& problem);
  void could_not_start(const error& problem);
  void joined();
  void leave(const then& continuation);
  void await_end(duration wait, caf::actor_clock::time_point deadline, const then& continuation);
  void drop_runtime();

  // Process sets.
  void create_initial_sets();
  void sets_created(const error& problem);

  // The loop.
  void enter();
  void sync();
  void train();
  void begin_round();
  void submit_next();
  void end_round();
  void commit();
  void interrupted(bool removals_only);
  void failed(const error& problem);
  void regroup();
  void exit(int code, int signal);

  /// A set of the current generation of this process.
  set_key set(std::uint32_t number) const;
  void ask(submission_queue& queue, std::uint32_t set_number, const std::string& name, operation op,
           reduce_op reduction, std::vector<std::int64_t> in, answer callback);
  void wait_on_fast_path(const std::shared_ptr<asked>& request, std::uint64_t incarnation,
                         std::chrono::microseconds longest);
  static std::int64_t mix(std::int64_t a, std::int64_t b);
  std::int64_t part_of(std::int32_t slot, std::int64_t round, std::size_t tensor) const;
  std::int64_t sum(std::int64_t round, std::size_t tensor, bool in_set) const;
  bool in_set() const { return set_ && set_->queue; }
  std::string description() const;
  std::string location() const;

  elastic_stage& stage_;
  std::int32_t slot_;
  std::string host_;
  std::function<void(const process_end&)> ended_;
  dice draw_;
  std::uint64_t slow_ = 1;
  bool started_ = false;
  bool gone_ = false;
  int pending_signal_ = 0; ///< signal that arrived while the process was stopped
  error failure_;
  std::unique_ptr<logger> member_log_; ///< only if there is a transcript
  caf::actor clock_;                   ///< runs delayed calls

  std::shared_ptr<shared_member_state> shared_;
  std::future<error> start_;
  std::future<void> end_;
  caf::actor member_;
  std::shared_ptr<join_deadline> deadline_; ///< of the current init()
  std::optional<join_retry> starts_;        ///< of the current init()
  std::int64_t looks_ = 0;                  ///< number of polls of operations on the fast path
  std::uint64_t incarnation_ = 0;           ///< number of the runtime; events of earlier runtimes are ignored
  std::shared_ptr<shared_set_state> set_;
  bool founding_ = false; ///< the request for the sets of the start is pending

  next coming_{false, true};
  int tries_ = 0;
  caf::actor_clock::time_point patience_{};
  std::uint64_t last_generation_ = 0;
  caf::actor_clock::time_point in_since_; ///< begin of that generation, by the clock of the world
  std::uint64_t last_epoch_ = 0;          ///< epoch of the welcome to that generation
  std::uint64_t progress_ = 0;
  std::uint64_t state_generation_ = 0; ///< last generation in which it trained; 0: none
  std::shared_ptr<std::atomic<std::uint64_t>> obeyed_ = std::make_shared<std::atomic<std::uint64_t>>(0);
  bool goes_on_ = false; ///< it has reached its training function
  std::int64_t interrupted_for_ = 0;
  training_state state_;
  training_state saved_;
  std::vector<std::size_t> order_;                                  ///< tensors still to be submitted
  std::map<std::pair<set_key, std::string>, std::uint64_t> counts_; ///< number of operations
  std::size_t in_flight_ = 0;
  std::int64_t digest_ = 0; ///< digest of this round
  std::deque<std::shared_ptr<asked>> asked_;
};

} // namespace farandole::testing
