// A UCX context with its one worker. It is created with the settings that this process needs and driven by
// one thread, which can sleep until there are network events.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "collectives/transport/ucx/ucx_library.hpp"
#include "collectives/transport/ucx/ucx_path.hpp"

namespace farandole {

class ucx_context {
public:
  using clock = std::chrono::steady_clock;

  static expected<std::unique_ptr<ucx_context>> open(const ucx_options& options);
  /// All endpoints must be closed before. Pending requests end here: their callbacks are called.
  ~ucx_context();
  ucx_context(const ucx_context&) = delete;
  ucx_context& operator=(const ucx_context&) = delete;

  const ucx_library& ucx() const { return ucx_; }
  ucp_worker_h worker() const { return worker_; }
  std::string address() const;

  /// Receives and sends without blocking, and calls the callbacks of requests and endpoints. Returns whether
  /// any bytes were moved.
  bool progress() { return ucx_.worker_progress(worker_) != 0; }
  /// Sleeps until UCX reports an event, or for a slice, which grows from call to call. Returns false if there
  /// is an event already.
  bool sleep(clock::time_point deadline);
  /// Makes the next sleep use the shortest slice.
  void reset_sleep() { slice_ms_ = 1; }
  /// Drives the worker until the deadline, or until `done` returns true.
  void progress_until(clock::time_point deadline, const std::function<bool()>& done);
  /// Drives the worker until all requests are done or the deadline has passed, then frees them.
  void await_and_free(std::span<void* const> requests, clock::time_point deadline);

private:
  explicit ucx_context(const ucx_library& ucx) : ucx_(ucx) {}
  error start(const ucx_options& options);

  const ucx_library& ucx_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_ = -1; ///< owned by the worker
  int slice_ms_ = 1;
};

} // namespace farandole
