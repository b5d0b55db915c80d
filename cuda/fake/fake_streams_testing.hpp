// Streams and events of the stand-in driver. A stream is a queue of work with a thread of its own. Each piece of work
// has a number in its stream, so a point in a stream is a number that the stream has to finish. An event holds the
// points that it recorded last; recording is not work itself. What a stream waits for are points, too: those of events,
// and for the legacy default stream those of all blocking streams, which wait for those of the default stream.
#pragma once

#include <cuda.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace fake {

struct point {
  std::shared_ptr<CUstream_st> stream;
  std::uint64_t number = 0;

  bool reached() const;
};
using points = std::vector<point>;

bool reached(const points& all);

struct work {
  points behind;
  std::function<void()> action;
};

enum class capture { none, active, invalidated };

} // namespace fake

/// Everything but `context`, `is_default` and `is_blocking` belongs to the mutex of all streams.
struct CUstream_st {
  CUcontext context = nullptr;
  bool is_default = false, is_blocking = true;
  std::deque<fake::work> queue;
  std::uint64_t given = 0, finished = 0; ///< numbers of the last work that was given, and that was done
  bool is_running = false;               ///< the first of the queue
  bool is_destroyed = false;             ///< its thread ends after the work that was given
  bool has_thread = false;
  fake::capture capture = fake::capture::none;
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id capturing_thread;
};

struct CUevent_st {
  CUcontext context = nullptr;
  fake::points recorded;
};

namespace fake {

/// All streams and events. There is one object, which is never destroyed, as other threads may call the driver while
/// the process ends; its threads are joined at the exit.
struct streams {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_ending = false;
  std::unordered_map<CUstream, std::shared_ptr<CUstream_st>> alive;
  std::unordered_map<CUevent, std::shared_ptr<CUevent_st>> events;
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<CUstream_st>> destroyed; ///< with work that is not done
  std::vector<CUstream> created;                       ///< all that ever were, in their order

  static streams& all();

  // All of these need the mutex.

  /// The stream of a handle: null is the default stream of the thread's context. Null if there is none.
  std::shared_ptr<CUstream_st> find(CUstream handle);
  /// Where all work is done that work given to the stream now has to wait for, the stream's own included.
  points before(const std::shared_ptr<CUstream_st>& stream);
  void give(const std::shared_ptr<CUstream_st>& stream, std::function<void()> action, points behind = {});
  /// Runs the first work of a queue, without the mutex meanwhile.
  void run_first(CUstream_st& stream, std::unique_lock<std::mutex>& lock);
  /// Whether the first work of a queue may run.
  static bool can_run(const CUstream_st& stream);
  /// Waits for points. Runs the work itself if streams are manual.
  CUresult wait(const points& all, std::unique_lock<std::mutex>& lock);
  bool advance(const point& target, std::unique_lock<std::mutex>& lock);
  /// Runs work of all streams until no more can run. Returns how many pieces ran.
  unsigned run_all(std::unique_lock<std::mutex>& lock);

private:
  void serve(const std::shared_ptr<CUstream_st>& stream);
};

/// Gives a stream work, which copies or writes. The name is that of the driver's function.
CUresult give_work(const char* function, CUstream stream, std::function<void()> action);

/// Lets the threads of streams look again whether they may run.
void wake_streams();

std::shared_ptr<CUstream_st> make_default_stream(CUcontext context);

} // namespace fake
