#include "collectives/transport/mpi/mpi_engine.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdlib>
#include <future>
#include <utility>

#include "collectives/transport/mpi/mpi_library.hpp"

namespace farandole {
namespace {

/// MPI has no descriptor to sleep on. While messages are in progress, the thread polls, yields for some
/// rounds, and then sleeps between two polls, with exponential backoff.
constexpr unsigned looks_before_sleep = 64;
constexpr std::chrono::microseconds first_sleep{20};
constexpr std::chrono::microseconds longest_sleep{1000};
/// Limit for MPI_Finalize, which waits for ever if members have died.
constexpr std::chrono::seconds finish_patience{10};

error not_answered(const char* text) {
  return {error_kind::timed_out, std::string("MPI did not answer in time when asked to ") + text +
                                     "; all processes of the job must call init() together"};
}

} // namespace

mpi_engine::mpi_engine(const mpi_module& mpi) : mpi_(mpi) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

mpi_engine::~mpi_engine() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  news_.notify_one();
  thread_.join();
}

// ---- the one of this process ---------------------------------------------------------------------

namespace {

struct of_this_process {
  std::mutex guard;
  mpi_engine* engine = nullptr; ///< never destroyed: its thread may be inside MPI when the process ends
  pid_t process = 0;
};

of_this_process& shared() {
  static auto* entry = new of_this_process;
  return *entry;
}

void finish_at_exit() {
  if (shared().process == ::getpid())
    shared().engine->finish(mpi_engine::clock::now() + finish_patience);
}

} // namespace

expected<mpi_engine*> mpi_engine::of_process(bool alone, clock::time_point deadline) {
  auto& of_this_process = shared();
  std::lock_guard lock(of_this_process.guard);
  if (of_this_process.engine != nullptr)
    return of_this_process.engine;
  const auto& mpi = load_mpi();
  if (!mpi)
    return mpi.error();
  auto engine = std::make_unique<mpi_engine>(**mpi);
  if (auto problem = engine->start(alone, deadline)) {
    if (problem.kind == error_kind::timed_out)
      static_cast<void>(engine.release()); // its thread is inside MPI
    return problem;
  }
  of_this_process.engine = engine.release();
  of_this_process.process = ::getpid();
  std::atexit(finish_at_exit);
  return of_this_process.engine;
}

error mpi_engine::start(bool alone, clock::time_point deadline) {
  const auto bring_up = [this, alone]() -> error {
    mpi_.look(&world_);
    if (world_.finalized)
      return {error_kind::precondition, "MPI has been finalized in this process and cannot be used again"};
    if (!world_.initialized) {
      if (const int code = mpi_.initialize(alone ? mpi_level::single : mpi_level::multiple))
        return {error_kind::unknown, "MPI cannot be initialized: " + describe(code)};
      ours_ = true;
      mpi_.look(&world_);
    }
    if (world_.level != mpi_level::multiple && !world_.main_thread)
      return {error_kind::precondition,
              "MPI is initialized already, but not for several threads (MPI_THREAD_MULTIPLE), and Farandole "
              "calls it from a thread of its own; set mpi4py.rc.thread_level = \"multiple\" before importing "
              "mpi4py.MPI, or call hvd.init() first"};
    return {};
  };
  auto problem = call(bring_up, deadline);
  return problem.kind == error_kind::timed_out ? not_answered("start") : problem;
}

void mpi_engine::finish(clock::time_point deadline) {
  call(
      [this]() -> error {
        mpi_state current{};
        mpi_.look(&current);
        if (std::exchange(ours_, false) && !current.finalized)
          mpi_.finalize();
        return {};
      },
      deadline);
}

expected<mpi_group> mpi_engine::form(std::span<const std::int32_t> ranks, clock::time_point deadline) {
  auto formed = std::make_shared<mpi_group>();
  const std::vector<std::int32_t> members(ranks.begin(), ranks.end());
  const auto own = std::find(members.begin(), members.end(), world_.rank);
  assert(own != members.end());
  formed->rank = static_cast<std::int32_t>(own - members.begin());
  formed->size = static_cast<std::int32_t>(members.size());
  formed->tag_limit = world_.tag_limit;
  const auto problem = call(
      [this, formed, members]() -> error {
        if (const int code = mpi_.form(members.data(), formed->size, &formed->handle))
          return {error_kind::unknown, "MPI cannot make a communicator: " + describe(code)};
        return {};
      },
      deadline);
  if (problem.kind == error_kind::timed_out)
    return not_answered("make a communicator");
  if (problem)
    return problem;
  return *formed;
}

error mpi_engine::call(std::function<error()> work, clock::time_point deadline) {
  auto answer = std::make_shared<std::promise<error>>();
  auto answered = answer->get_future();
  {
    std::lock_guard lock(mutex_);
    calls_.push_back([answer, work = std::move(work)] { answer->set_value(work()); });
  }
  news_.notify_one();
  if (answered.wait_until(deadline) != std::future_status::ready)
    return {error_kind::timed_out, "MPI did not answer in time"};
  return answered.get();
}

void mpi_engine::post(mpi_message_ptr message) {
  {
    std::lock_guard lock(mutex_);
    posted_.push_back(std::move(message));
  }
  news_.notify_one();
}

std::string mpi_engine::describe(int code) const {
  std::array<char, 1024> text{};
  mpi_.describe(code, text.data(), text.size());
  return text.data();
}

// ---- the thread ----------------------------------------------------------------------------------

void mpi_engine::run() {
  pthread_setname_np(pthread_self(), "fd-mpi");
  unsigned idle = 0;
  auto nap = first_sleep;
  for (;;) {
    std::vector<mpi_message_ptr> posted;
    std::vector<std::function<void()>> calls;
    {
      std::unique_lock lock(mutex_);
      const auto something = [this] { return ending_ || !calls_.empty() || !posted_.empty(); };
      if (under_way_.empty())
        news_.wait(lock, something); // no time limit: no message is in progress
      else if (idle > looks_before_sleep) {
        news_.wait_for(lock, nap, something);
        nap = std::min(nap * 2, longest_sleep);
      }
      if (ending_)
        return;
      posted.swap(posted_);
      calls.swap(calls_);
    }
    for (const auto& work : calls)
      work();
    for (const auto& message : posted)
      begin(message);
    drop_closed();
    if (look() || !posted.empty()) {
      idle = 0;
      nap = first_sleep;
    } else if (++idle <= looks_before_sleep) {
      sched_yield();
    }
  }
}

void mpi_engine::begin(const mpi_message_ptr& message) {
  if (message->mailbox->closed)
    return;
  mpi_handle request = 0;
  auto& element_type = *message;
  assert(element_type.memory.size() >= element_type.bytes);
  const int code = element_type.receives
                       ? mpi_.receive(element_type.group, element_type.peer, element_type.tag,
                                      element_type.memory.data(), element_type.bytes, &request)
                       : mpi_.send(element_type.group, element_type.peer, element_type.tag,
                                   element_type.memory.data(), element_type.bytes, &request);
  if (code != 0)
    return end(element_type, code);
  requests_.push_back(request);
  under_way_.push_back(message);
}

/// Polls MPI. Returns whether any message has ended.
bool mpi_engine::look() {
  if (requests_.empty())
    return false;
  completed_.resize(requests_.size());
  codes_.resize(requests_.size());
  received_.resize(requests_.size());
  std::int32_t done = 0;
  if (const int code = mpi_.test(requests_.data(), static_cast<std::int32_t>(requests_.size()), &done,
                                 completed_.data(), codes_.data(), received_.data())) {
    // The state of all requests is unknown now, so none of them can be tested any more.
    for (const auto& message : under_way_)
      end(*message, code);
    left_behind_.insert(left_behind_.end(), under_way_.begin(), under_way_.end());
    under_way_.clear();
    requests_.clear();
    return true;
  }
  for (std::int32_t at = 0; at < done; ++at) {
    const auto index = static_cast<std::size_t>(at);
    const auto request = static_cast<std::size_t>(completed_[index]);
    end(*std::exchange(under_way_[request], nullptr), codes_[index], received_[index]);
  }
  std::size_t kept = 0;
  for (std::size_t at = 0; at < requests_.size(); ++at) {
    if (!under_way_[at])
      continue;
    if (kept != at) {
      requests_[kept] = requests_[at];
      under_way_[kept] = std::move(under_way_[at]);
    }
    ++kept;
  }
  requests_.resize(kept);
  under_way_.resize(kept);
  return done > 0;
}

/// Abandons messages whose mailbox is closed. MPI can cancel a receive but hardly a send; in neither case is
/// it asked about the request again.
void mpi_engine::drop_closed() {
  for (std::size_t at = 0; at < under_way_.size();) {
    if (!under_way_[at]->mailbox->closed) {
      ++at;
      continue;
    }
    if (under_way_[at]->receives)
      mpi_.cancel(requests_[at]);
    left_behind_.push_back(std::move(under_way_[at]));
    under_way_[at] = std::move(under_way_.back());
    requests_[at] = requests_.back();
    under_way_.pop_back();
    requests_.pop_back();
  }
}

void mpi_engine::end(mpi_message& message, int code, std::uint64_t received) {
  message.code = code;
  message.received = received;
  message.done.store(true, std::memory_order_release);
  auto& counter = message.mailbox->done;
  counter.publish(counter.value.load(std::memory_order_relaxed) + 1);
}

} // namespace farandole
