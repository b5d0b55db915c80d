#include "actors/event_loop/loop.hpp"

#include "actors/event_loop/scheduler.hpp"

#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <pthread.h>
#include <signal.h>

#include <bit>
#include <cassert>

namespace farandole {

using caf::io::network::operation;

namespace {

/// Maximum number of messages that one actor processes before the next actor runs.
constexpr std::size_t messages_per_resume = 256;
/// Maximum number of rounds over the runnable actors before the loop polls its sockets again.
constexpr int rounds_per_turn = 64;

void block_all_signals(sigset_t* before) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, before);
}

void drain(int fd) {
  std::uint64_t count = 0;
  [[maybe_unused]] auto got = ::read(fd, &count, sizeof count);
}

} // namespace

// ---- watches ----

class descriptor_watch::handler final : public caf::io::network::event_handler {
public:
  handler(farandole::loop& owner, descriptor fd, std::function<void(watch_event)> callback)
      : event_handler(owner, fd.release()), life_(owner.life_), loop_(owner), callback_(std::move(callback)) {
    state_.reading = true; // without it CAF does not forward read events
    mark(true);
  }
  ~handler() override { mark(false); } // before the base class closes the descriptor

  void want(bool readable, bool writable) {
    change(operation::read, readable_, readable);
    change(operation::write, writable_, writable);
  }

  /// Null once the loop is gone.
  farandole::loop* owner() const { return life_.expired() ? nullptr : &loop_; }

  void stop() {
    stopped_ = true;
    want(false, false);
  }

  void handle_event(operation op) override {
    if (stopped_)
      return;
    switch (op) {
    case operation::read:
      return callback_(watch_event::readable);
    case operation::write:
      return callback_(watch_event::writable);
    case operation::propagate_error:
      // CAF removes the descriptor from its poll set after this call.
      readable_ = writable_ = false;
      return callback_(watch_event::hangup);
    }
  }
  void removed_from_loop(operation) override {}
  void graceful_shutdown() override {}

private:
  void mark(bool watched) {
    auto* loop = owner();
    auto number = static_cast<std::size_t>(fd());
    if (!loop || number >= loop::most_descriptors)
      return;
    auto bit = std::uint64_t{1} << (number % 64);
    if (watched)
      loop->watched_[number / 64].fetch_or(bit);
    else
      loop->watched_[number / 64].fetch_and(~bit);
  }

  void change(operation op, bool& is, bool wanted) {
    if (is == wanted)
      return;
    is = wanted;
    if (wanted)
      loop_.add(op, fd(), this);
    else
      loop_.del(op, fd(), this);
  }

  std::weak_ptr<int> life_;
  farandole::loop& loop_;
  std::function<void(watch_event)> callback_;
  bool readable_ = false;
  bool writable_ = false;
  bool stopped_ = false;
};

descriptor_watch& descriptor_watch::operator=(descriptor_watch&& other) noexcept {
  if (this != &other) {
    stop();
    handler_ = std::move(other.handler_);
  }
  return *this;
}

int descriptor_watch::get() const {
  return handler_ ? handler_->fd() : -1;
}

void descriptor_watch::want(bool readable, bool writable) {
  if (handler_ && handler_->owner())
    handler_->want(readable, writable);
}

void descriptor_watch::stop() {
  auto ended = std::move(handler_);
  if (!ended)
    return;
  // The kernel may have reported an event for this descriptor already, and this call may come from its own callback.
  // So the loop keeps the descriptor and the callback alive until the end of its turn.
  if (auto* owner = ended->owner()) {
    ended->stop();
    owner->stopped_watches_.push_back(std::move(ended));
  }
}

descriptor_watch loop::watch(descriptor fd, std::function<void(watch_event)> callback) {
  assert(fd && callback);
  auto result = std::make_shared<descriptor_watch::handler>(*this, std::move(fd), std::move(callback));
  result->want(true, false);
  return descriptor_watch{std::move(result)};
}

void loop::settle_watches() {
  handle_internal_events();
  if (stopped_watches_.empty())
    return;
  auto ended = std::move(stopped_watches_);
  stopped_watches_.clear();
}

void loop::close_in_child() noexcept {
  for (std::size_t i = 0; i < watched_.size(); ++i)
    for (auto bits = watched_[i].load(); bits != 0; bits &= bits - 1)
      ::close(static_cast<int>(i * 64 + static_cast<std::size_t>(std::countr_zero(bits))));
}

// ---- the loop ----

loop::loop(caf::actor_system* system) : default_multiplexer(system) {
  descriptor bell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  descriptor timer{::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
  assert(bell && timer);
  bell_ = watch(std::move(bell), [this](watch_event) { drain(bell_.get()); });
  timer_ = watch(std::move(timer), [this](watch_event) {
    drain(timer_.get());
    if (timer_action_)
      timer_action_();
  });
  handle_internal_events();
}

loop::~loop() {
  life_.reset();
  // Jobs that were queued after the end of the loop are not run, but their references must be released. Releasing a
  // job may queue further jobs.
  for (;;) {
    take_foreign();
    auto rest = std::move(local_);
    local_.clear();
    if (rest.empty())
      break;
    for (auto* job : rest)
      caf::scheduler::abstract_coordinator::cleanup_and_release(job);
  }
}

void loop::exec_later(caf::resumable* job) {
  if (is_local()) {
    local_.push_back(job);
    return;
  }
  {
    std::lock_guard lock{foreign_guard_};
    foreign_.push_back(job);
    foreign_count_.store(foreign_.size(), std::memory_order_seq_cst);
  }
  ring();
}

void loop::ring() {
  // Pairs with sleep(), which stores sleeping_ and then loads foreign_count_ (all seq_cst). Either sleep() observes
  // the new job, or this thread observes that the loop sleeps; so no wake-up is lost.
  if (sleeping_.load(std::memory_order_seq_cst) && sleeping_.exchange(false)) {
    doorbells_.fetch_add(1, std::memory_order_relaxed);
    std::uint64_t number = 1;
    [[maybe_unused]] auto put = ::write(bell_.get(), &number, sizeof number);
  }
}

void loop::take_foreign() {
  if (foreign_count_.load(std::memory_order_relaxed) == 0)
    return;
  std::lock_guard lock{foreign_guard_};
  local_.insert(local_.end(), foreign_.begin(), foreign_.end());
  foreign_.clear();
  foreign_count_.store(0, std::memory_order_relaxed);
}

void loop::resume_one(caf::resumable* job) {
  switch (job->resume(this, messages_per_resume)) {
  case caf::resumable::resume_later:
    local_.push_back(job);
    break;
  case caf::resumable::shutdown_execution_unit:
    break; // holds no reference
  default:
    caf::intrusive_ptr_release(job);
  }
}

bool loop::run_actors() {
  for (int round = 0; round < rounds_per_turn; ++round) {
    take_foreign();
    if (local_.empty())
      return false;
    batch_.swap(local_);
    for (auto* job : batch_)
      resume_one(job);
    batch_.clear();
  }
  return true;
}

/// Runs one turn. Returns true if there is more to do at once.
bool loop::turn() {
  bool more = run_actors();
  while (!more && !turn_end_.empty()) {
    turn_end_batch_.swap(turn_end_);
    for (auto& action : turn_end_batch_)
      action();
    turn_end_batch_.clear();
    more = run_actors();
  }
  settle_watches();
  return more || !local_.empty() || !turn_end_.empty();
}

void loop::sleep() {
  if (auto spin = spin_us_.load(std::memory_order_relaxed)) {
    auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds{spin};
    do {
      if (foreign_count_.load(std::memory_order_relaxed) || poll_once(false))
        return;
    } while (std::chrono::steady_clock::now() < deadline);
  }
  sleeping_.store(true, std::memory_order_seq_cst);
  if (foreign_count_.load(std::memory_order_seq_cst) == 0 && !stopping_.load()) {
    poll_once(true);
    wakeups_.fetch_add(1, std::memory_order_relaxed);
  }
  sleeping_.store(false, std::memory_order_relaxed);
}

void loop::run() {
  block_all_signals(nullptr);
  pthread_setname_np(pthread_self(), "fd-loop");
  while (!stopping_.load()) {
    if (turn())
      poll_once(false);
    else
      sleep();
  }
  // The actor system is shutting down, and CAF has just told its brokers to end. Run the remaining messages, within
  // a bound.
  for (int i = 0; i < 1000 && turn(); ++i)
    poll_once(false);
}

void loop::stop() {
  stopping_.store(true);
  std::uint64_t number = 1;
  [[maybe_unused]] auto put = ::write(bell_.get(), &number, sizeof number);
}

loop::supervisor_ptr loop::make_supervisor() {
  struct stopper final : supervisor {
    explicit stopper(loop& l) : target(l) {}
    ~stopper() override { target.stop(); }
    loop& target;
  };
  return std::make_unique<stopper>(*this);
}

void loop::set_timer(std::chrono::steady_clock::time_point when) {
  auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count();
  if (ns <= 0)
    ns = 1; // zero would disarm the timer
  itimerspec wanted{};
  wanted.it_value.tv_sec = ns / 1'000'000'000;
  wanted.it_value.tv_nsec = ns % 1'000'000'000;
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &wanted, nullptr);
}

// ---- systems ----

void use_one_loop(caf::actor_system_config& config) {
  config.load<caf::io::middleman, loop>();
  config.load<loop_scheduler>();
  // Otherwise CAF starts a thread for the middleman's own actor.
  config.set("middleman.attach-utility-actors", true);
  config.set("middleman.workers", 0);
  config.set("logger.verbosity", caf::atom("quiet"));
}

loop& loop_of(caf::actor_system& system) {
  auto* found = dynamic_cast<loop*>(&system.middleman().backend());
  assert(found && "the system was not made with use_one_loop");
  return *found;
}

struct loop_system::config final : caf::actor_system_config {
  config() { use_one_loop(*this); }
};

loop_system::loop_system() : config_(std::make_unique<config>()) {
  // The loop's thread inherits this signal mask.
  sigset_t before;
  block_all_signals(&before);
  try {
    // CAF crashes if its constructor cannot start the loop's thread. A thread that has started and ended before leaves
    // its stack to the next one.
    std::thread([] {}).join();
    system_ = std::make_unique<caf::actor_system>(*config_);
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

loop_system::~loop_system() = default;

} // namespace farandole
