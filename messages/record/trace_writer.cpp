#include "messages/record/trace_writer.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "messages/record/packed_record.hpp"

namespace farandole {

namespace {

using std::chrono::microseconds;

// The thread sleeps for as long as it takes to fill an eighth of a ring.
constexpr microseconds shortest_sleep{250};
constexpr microseconds longest_sleep{50'000};
constexpr double wanted_share = 0.125;

constexpr std::chrono::milliseconds time_between_looks{200};

microseconds next_sleep(microseconds sleep, double share) {
  const auto factor = share > 0 ? std::clamp(wanted_share / share, 0.1, 2.0) : 2.0;
  const microseconds next{static_cast<std::int64_t>(static_cast<double>(sleep.count()) * factor)};
  return std::clamp(next, shortest_sleep, longest_sleep);
}

/// An empty file in the folder, or in memory.
descriptor make_file(const std::string& path) {
  return descriptor{path.empty()
                        ? ::memfd_create("farandole-trace", MFD_CLOEXEC)
                        : ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
}

std::string system_problem(const std::string& action) {
  return action + ": " + std::strerror(errno);
}

} // namespace

trace_writer::trace_writer(trace_plan plan) : plan_(std::move(plan)), thread_([this] { work(); }) {}

trace_writer::~trace_writer() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

void trace_writer::end(std::function<void(written_traces written)> done) {
  const std::lock_guard lock(mutex_);
  done_ = std::move(done);
  closing_ = true;
  changed_.notify_one();
}

void trace_writer::work() {
  pthread_setname_np(pthread_self(), "fd-trace");
  auto sleep = shortest_sleep;
  auto next_look = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!closing_) {
    lock.unlock();
    if (const auto time = std::chrono::steady_clock::now(); time >= next_look) {
      look_for_sources();
      next_look = time + time_between_looks;
    }
    sleep = next_sleep(sleep, pull_all());
    if (!said_ended_ && all_have_ended()) {
      said_ended_ = true;
      if (plan_.ended)
        plan_.ended();
    }
    lock.lock();
    changed_.wait_for(lock, sleep, [this] { return closing_; });
  }
  const auto done = std::move(done_);
  lock.unlock();
  if (!done)
    return;
  pull_all();
  done(finish());
}

void trace_writer::look_for_sources() {
  const auto is_of = [](const void* identity) {
    return [identity](const running& entry) { return entry.identity == identity; };
  };
  for (const auto& source : plan_.sources())
    if (std::ranges::none_of(traces_, is_of(source.identity)) &&
        std::ranges::find(refused_, source.identity) == refused_.end())
      start(source);
}

void trace_writer::start(const trace_source& source) {
  const auto path = plan_.folder.empty()
                        ? std::string()
                        : plan_.folder + "/process-" + std::to_string(::getpid()) + ".events";
  const auto refuse = [&](std::string problem) {
    problems_.push_back(std::move(problem));
    refused_.push_back(source.identity);
  };
  auto region = source.map();
  if (!region)
    return refuse(region.error().text);
  auto file = make_file(path);
  if (!file)
    return refuse(system_problem((path.empty() ? "memory for a trace" : path) + " cannot be made"));
  auto trace = event_trace::begin(std::move(*region), std::move(file), plan_.bounds);
  if (!trace)
    return refuse(trace.error().text);
  traces_.push_back({source.identity, source.facts, std::move(*trace), path});
}

double trace_writer::pull_all() {
  double most = 0;
  for (auto& entry : traces_)
    if (!entry.trace.has_ended())
      most = std::max(most, entry.trace.pull());
  return most;
}

bool trace_writer::all_have_ended() const {
  return !traces_.empty() &&
         std::ranges::all_of(traces_, [](const running& entry) { return entry.trace.has_ended(); });
}

written_traces trace_writer::finish() {
  written_traces written{{}, std::move(problems_)};
  for (auto& [identity, facts, trace, path] : traces_) {
    const auto process = facts();
    trace.finish(process);
    if (trace.problem() != 0)
      written.problems.push_back((path.empty() ? "the memory of a trace" : path) + " could not grow: " +
                                 std::strerror(trace.problem()) + "; it has no later events");
    const auto rank = trace.rank();
    const auto packed_path = path.empty() ? path : path.substr(0, path.rfind('.')) + ".trace";
    auto packed = make_file(packed_path);
    auto problem = packed ? pack_record(trace.file(), packed.get())
                          : error{error_kind::unknown, system_problem("a trace cannot be written")};
    if (problem) {
      if (packed && !path.empty()) {
        ::unlink(packed_path.c_str());
        problem.text += "; the trace is in " + path;
      }
      written.problems.push_back(problem.text);
      continue;
    }
    if (!path.empty())
      ::unlink(path.c_str());
    written.traces.push_back(
        {process.slot, rank, std::move(packed), trace.events(), trace.dropped(), trace.is_full()});
  }
  return written;
}

} // namespace farandole
