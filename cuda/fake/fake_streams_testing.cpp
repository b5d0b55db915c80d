#include "cuda/fake/fake_streams_testing.hpp"

#include <cstdlib>

#include "cuda/fake/fake_calls_testing.hpp"
#include "cuda/fake/fake_capture_testing.hpp"
#include "cuda/fake/fake_contexts_testing.hpp"

namespace fake {

namespace {

void end_threads() {
  if (is_forked())
    return; // the threads are the parent's
  auto& all = streams::all();
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(all.mutex);
    all.is_ending = true;
    threads.swap(all.threads);
  }
  all.changed.notify_all();
  for (auto& thread : threads)
    thread.join();
}

} // namespace

bool point::reached() const {
  return stream->finished >= number;
}

bool reached(const points& all) {
  for (const auto& point : all)
    if (!point.reached())
      return false;
  return true;
}

streams& streams::all() {
  static auto& all = []() -> streams& {
    std::atexit(end_threads);
    return *new streams;
  }();
  return all;
}

std::shared_ptr<CUstream_st> make_default_stream(CUcontext context) {
  auto stream = std::make_shared<CUstream_st>();
  stream->context = context;
  stream->is_default = true;
  return stream;
}

void wake_streams() {
  auto& all = streams::all();
  const std::lock_guard lock(all.mutex); // so that none is between its look and its sleep
  all.changed.notify_all();
}

std::shared_ptr<CUstream_st> streams::find(CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY)
    return current_context() != nullptr ? current_context()->default_stream : nullptr;
  const auto found = alive.find(handle);
  return found != alive.end() ? found->second : nullptr;
}

points streams::before(const std::shared_ptr<CUstream_st>& stream) {
  points result{{stream, stream->given}};
  if (stream->is_default) {
    for (const auto& [handle, other] : alive)
      if (other->context == stream->context && other->is_blocking)
        result.push_back({other, other->given});
  } else if (stream->is_blocking) {
    const auto& first = stream->context->default_stream;
    result.push_back({first, first->given});
  }
  std::erase_if(result, [](const point& point) { return point.reached(); });
  return result;
}

void streams::give(const std::shared_ptr<CUstream_st>& stream, std::function<void()> action, points behind) {
  if (stream->capture != capture::none)
    return; // it becomes a part of the graph, which is not kept
  for (auto& point : before(stream))
    if (point.stream != stream)
      behind.push_back(std::move(point));
  stream->queue.push_back({std::move(behind), std::move(action)});
  ++stream->given;
  if (!is_manual() && !stream->has_thread && !is_ending) {
    stream->has_thread = true;
    threads.emplace_back([this, stream] { serve(stream); });
  }
  changed.notify_all();
}

bool streams::can_run(const CUstream_st& stream) {
  return !stream.queue.empty() && !stream.is_running && !is_stuck() &&
         fake::reached(stream.queue.front().behind);
}

void streams::run_first(CUstream_st& stream, std::unique_lock<std::mutex>& lock) {
  stream.is_running = true;
  {
    const auto next = std::move(stream.queue.front()); // its references are released without the mutex
    stream.queue.pop_front();
    lock.unlock();
    next.action();
  }
  lock.lock();
  stream.is_running = false;
  ++stream.finished;
  changed.notify_all();
}

void streams::serve(const std::shared_ptr<CUstream_st>& stream) {
  std::unique_lock lock(mutex);
  while (!is_ending && !(stream->is_destroyed && stream->queue.empty()))
    if (!is_manual() && can_run(*stream))
      run_first(*stream, lock);
    else
      changed.wait(lock);
}

bool streams::advance(const point& target, std::unique_lock<std::mutex>& lock) {
  while (!target.reached()) {
    if (target.stream->is_running)
      return false; // a function of the host that waits for its own stream
    for (const auto& point : points(target.stream->queue.front().behind))
      if (!advance(point, lock))
        return false;
    if (!can_run(*target.stream))
      return false;
    run_first(*target.stream, lock);
  }
  return true;
}

CUresult streams::wait(const points& all, std::unique_lock<std::mutex>& lock) {
  if (is_manual()) {
    for (const auto& point : all)
      if (!advance(point, lock))
        return CUDA_ERROR_LAUNCH_TIMEOUT;
    return CUDA_SUCCESS;
  }
  changed.wait(lock, [&] { return is_ending || fake::reached(all); });
  return fake::reached(all) ? CUDA_SUCCESS : CUDA_ERROR_DEINITIALIZED;
}

unsigned streams::run_all(std::unique_lock<std::mutex>& lock) {
  std::vector<std::shared_ptr<CUstream_st>> every = destroyed;
  for (const auto& [handle, stream] : alive) {
    every.push_back(stream);
    every.push_back(stream->context->default_stream);
  }
  if (current_context() != nullptr)
    every.push_back(current_context()->default_stream);
  unsigned ran = 0;
  for (auto before = ran + 1; before != ran;) {
    before = ran;
    for (const auto& stream : every)
      for (; can_run(*stream); ++ran)
        run_first(*stream, lock);
  }
  std::erase_if(destroyed, [](const auto& stream) { return stream->queue.empty(); });
  return ran;
}

CUresult give_work(const char* function, CUstream stream, std::function<void()> action) {
  if (const auto fault = enter(function); fault != CUDA_SUCCESS)
    return fault;
  auto& all = streams::all();
  const std::lock_guard lock(all.mutex);
  const auto found = all.find(stream);
  if (found == nullptr)
    return current_context() != nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_CONTEXT;
  if (const auto refused = refuse_beside_capture(all, *found); refused != CUDA_SUCCESS)
    return refused;
  all.give(found, std::move(action));
  return CUDA_SUCCESS;
}

} // namespace fake

/// In manual mode: runs the next `count` pieces of work of a stream, or fewer if one has to wait. Null: the work of all
/// streams until no more can run (CU_STREAM_LEGACY is the default stream of the thread's context). Returns how many ran.
extern "C" __attribute__((visibility("default"))) unsigned fakeStreamRun(CUstream handle, unsigned count) {
  using namespace fake;
  auto& all = streams::all();
  std::unique_lock lock(all.mutex);
  unsigned ran = 0;
  if (handle != nullptr) {
    const auto stream = all.find(handle);
    for (; stream != nullptr && ran < count && streams::can_run(*stream); ++ran)
      all.run_first(*stream, lock);
    return ran;
  }
  return all.run_all(lock);
}

/// The stream that was created last (0), the one before (1), and so on. Null if there were not so many.
extern "C" __attribute__((visibility("default"))) CUstream fakeStreamCreated(unsigned age) {
  auto& all = fake::streams::all();
  const std::lock_guard lock(all.mutex);
  return age < all.created.size() ? all.created[all.created.size() - 1 - age] : nullptr;
}
