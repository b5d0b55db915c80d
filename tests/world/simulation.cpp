#include "tests/world/simulation.hpp"

#include "actors/event_loop/scheduler.hpp"
#include "tests/world/own_thread.hpp"

#include <caf/scheduled_actor.hpp>

#include <time.h>

#include <cassert>
#include <unordered_set>

namespace farandole::testing {

namespace {

constexpr std::uint64_t hash_start = 1469598103934665603ULL;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  for (int i = 0; i < 8; ++i, value >>= 8)
    hash = (hash ^ (value & 0xff)) * 1099511628211ULL;
  return hash;
}

/// splitmix64: std's distributions differ between libraries, this does not.
std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// The actor that a job belongs to; null if it is no actor's. A dynamic_cast would take a tenth of a simulated job's time.
caf::scheduled_actor* actor_of(caf::resumable* job) {
  return job->subtype() == caf::resumable::scheduled_actor ? static_cast<caf::scheduled_actor*>(job)
                                                           : nullptr;
}

} // namespace

std::chrono::nanoseconds thread_time() {
  timespec current_time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &current_time);
  return std::chrono::seconds(current_time.tv_sec) + std::chrono::nanoseconds(current_time.tv_nsec);
}

class simulated_scheduler final : public caf::scheduler::abstract_coordinator, public caf::execution_unit {
public:
  simulated_scheduler(caf::actor_system& system, std::uint64_t seed)
      : abstract_coordinator(system), execution_unit(&system), draw_(seed) {}

  void enqueue(caf::resumable* job) override {
    if (processes_.told_apart())
      if (auto* scheduled_actor = actor_of(job))
        processes_.spawned(scheduled_actor->id());
    jobs_.push_back(job);
  }
  void exec_later(caf::resumable* job) override { enqueue(job); }
  bool detaches_utility_actors() const override { return false; }
  void start() override {
    utility_actors_[printer_id] = make_silent_printer(abstract_coordinator::system(), this);
  }
  void stop() override {
    take_up(processes_.proceed_all());
    while (step()) {
    }
    utility_actors_[printer_id] = nullptr;
  }
  world_clock& clock() noexcept override { return clock_; }
  caf::actor_clock::time_point world_time() const { return clock_.current_time; }
  /// Takes up the jobs of actors of a process that was stopped.
  void take_up(const std::vector<caf::resumable*>& jobs) {
    jobs_.insert(jobs_.end(), jobs.begin(), jobs.end());
  }

  /// Lets one actor take one message.
  bool step() {
    auto process = no_process;
    auto* job = next_job(process);
    if (!job)
      return false;
    ++steps_;
    if (auto* scheduled_actor = actor_of(job))
      trace_ = mixed(trace_, scheduled_actor->id());
    trace_ = mixed(trace_, static_cast<std::uint64_t>(world_time().time_since_epoch().count()));
    const running_process scope(processes_, process);
    switch (run(job)) {
    case caf::resumable::resume_later:
      jobs_.push_back(job);
      break;
    case caf::resumable::shutdown_execution_unit:
      break;
    default:
      caf::intrusive_ptr_release(job);
    }
    return true;
  }

  processes processes_;
  std::unordered_set<caf::actor_id> watched_;
  std::unique_ptr<own_thread> apart_; ///< the thread of the watched actors
  std::chrono::nanoseconds watched_time_{0};
  std::uint64_t trace_ = hash_start;
  std::uint64_t steps_ = 0;
  std::uint64_t limit_ = 50'000'000;

private:
  /// A random job whose process is not stopped; null if there is none.
  caf::resumable* next_job(process_id& process) {
    while (!jobs_.empty()) {
      std::swap(jobs_[next_random(draw_) % jobs_.size()], jobs_.back());
      auto* job = jobs_.back();
      jobs_.pop_back();
      if (!processes_.told_apart())
        return job;
      if (auto* scheduled_actor = actor_of(job))
        process = processes_.of(scheduled_actor->id());
      if (!processes_.stopped(process))
        return job;
      processes_.hold(process, job);
    }
    return nullptr;
  }

  caf::resumable::resume_result run(caf::resumable* job) {
    auto* scheduled_actor = watched_.empty() ? nullptr : actor_of(job);
    if (!scheduled_actor || !watched_.contains(scheduled_actor->id()))
      return job->resume(this, 1);
    auto result = caf::resumable::resume_later;
    apart_->run([&] {
      const auto begin = thread_time();
      result = job->resume(this, 1);
      watched_time_ += thread_time() - begin;
    });
    return result;
  }

  std::uint64_t draw_;
  std::vector<caf::resumable*> jobs_;
  world_clock clock_{processes_};
};

struct simulation::config final : caf::actor_system_config {
  explicit config(std::uint64_t seed, simulated_scheduler*& made) {
    set("logger.verbosity", caf::atom("quiet"));
    module_factories.push_back([seed, &made](caf::actor_system& system) -> caf::actor_system::module* {
      return made = new simulated_scheduler(system, seed);
    });
  }
};

simulation::simulation(std::uint64_t seed)
    : config_(std::make_unique<config>(seed, scheduler_)), random_(seed ^ 0xfa7a11d01eULL) {
  system_ = std::make_unique<caf::actor_system>(*config_);
  // CAF's own actors start lazily and in their own order; the trace begins after them.
  run_until_quiet();
  scheduler_->trace_ = hash_start;
  scheduler_->steps_ = 0;
}

simulation::~simulation() {
  // Otherwise the system would wait for ever for actors with pending timeouts.
  scheduler_->clock().cancel_all();
  system_->await_actors_before_shutdown(false);
}

bool simulation::run_until_quiet() {
  while (scheduler_->steps_ < scheduler_->limit_)
    if (!scheduler_->step())
      return true;
  return false;
}

bool simulation::run_until_idle() {
  while (run_until_quiet())
    if (!scheduler_->clock().trigger_timeout())
      return true;
  return false;
}

std::size_t simulation::pending_timers() const {
  return scheduler_->clock().schedule().size();
}

bool simulation::run_for(std::chrono::nanoseconds duration) {
  auto& clock = scheduler_->clock();
  auto end = now() + duration;
  for (;;) {
    if (!run_until_quiet())
      return false;
    auto next = clock.schedule().empty() ? end : clock.schedule().begin()->first;
    if (next >= end)
      break;
    clock.advance_time(next > now() ? next - now() : std::chrono::nanoseconds{0});
  }
  if (now() < end)
    clock.advance_time(end - now());
  return run_until_quiet();
}

void simulation::jump(std::chrono::nanoseconds duration) {
  scheduler_->clock().advance_time(duration);
}

caf::actor_clock::time_point simulation::now() const {
  return scheduler_->world_time();
}
processes& simulation::all_processes() {
  return scheduler_->processes_;
}
void simulation::proceed(process_id process) {
  scheduler_->take_up(scheduler_->processes_.proceed(process));
}
void simulation::proceed_all() {
  scheduler_->take_up(scheduler_->processes_.proceed_all());
}
std::uint64_t simulation::trace_hash() const {
  return scheduler_->trace_;
}
std::uint64_t simulation::steps() const {
  return scheduler_->steps_;
}
void simulation::watch(const caf::actor& actor) {
  if (!scheduler_->apart_)
    scheduler_->apart_ = std::make_unique<own_thread>();
  scheduler_->watched_.insert(actor.id());
}
std::chrono::nanoseconds simulation::watched_time() const {
  return scheduler_->watched_time_;
}
void simulation::step_limit(std::uint64_t limit) {
  scheduler_->limit_ = limit;
}

} // namespace farandole::testing
