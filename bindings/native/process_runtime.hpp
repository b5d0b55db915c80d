// One runtime as Python holds it, and its operations in flight. A wait releases the GIL and returns on Ctrl-C; the
// runtime's own threads never take the GIL. If Python drops a handle before its operation is released, this object keeps
// the arrays, because they belong to the operation until then.
#pragma once

#include "bindings/native/nanobind.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/submission/unnamed_calls.hpp"
#include "bindings/cxx/runtime.hpp"
#include "bindings/native/array_view.hpp"
#include "collectives/transport/shm/result_memory.hpp"

namespace farandole::native {

class process_runtime {
public:
  explicit process_runtime(std::unique_ptr<runtime> started);
  /// Shuts the runtime down. A forked child leaves it as it is.
  ~process_runtime();
  process_runtime(const process_runtime&) = delete;
  process_runtime& operator=(const process_runtime&) = delete;

  farandole::runtime& core() { return *runtime_; }
  bool usable_here() const { return runtime_->usable_here(); }
  /// Raises in a forked child.
  void require_usable() const;

  /// Numbers the calls of this process.
  std::uint32_t next_number() { return next_number_++; }

  /// The name of the next call of this kind that has none of its own. accepted_unnamed() follows when the core has
  /// accepted the call.
  std::string unnamed(std::uint32_t set, const std::string& prefix) {
    // Only the global set has joins, and it never restarts by itself.
    const auto current =
        set == 0 ? call_epoch{0, runtime_->joins()} : call_epoch{runtime_->process_set_epoch(set), 0};
    return unnamed_.next_name(set, prefix, current);
  }
  void accepted_unnamed(std::uint32_t set, const std::string& prefix) { unnamed_.accepted(set, prefix); }
  /// A new set has this number, which another set may have had before.
  void count_anew(std::uint32_t set) { unnamed_.count_anew(set); }

  /// Memory for tensors that are made, sent and dropped again and again.
  result_memory& memory() { return *memory_; }

  /// runtime::wait_for_devices(), without the GIL. Raises its error, or the exception of a signal handler.
  void wait_for_devices() const;

  /// Keeps arrays until their operation is released.
  void park(farandole::handle operation, nanobind::object input, nanobind::object output);
  /// Lets go of parked arrays whose operations are released, also those of runtimes that have ended.
  void sweep();

private:
  struct parked {
    farandole::handle operation;
    nanobind::object input;
    nanobind::object output;
  };

  static std::vector<parked>& left_behind();

  std::unique_ptr<farandole::runtime> runtime_;
  std::uint32_t next_number_ = 0;
  unnamed_calls unnamed_;
  std::vector<parked> parked_;
  std::shared_ptr<result_memory> memory_ = std::make_shared<result_memory>();
};

/// One operation in flight, as Python sees it.
class operation_handle {
public:
  operation_handle(std::shared_ptr<process_runtime> owner, farandole::handle operation, std::uint32_t number,
                   nanobind::object input, nanobind::object output, std::int32_t device = -1);
  operation_handle(operation_handle&&) noexcept = default;
  operation_handle(const operation_handle&) = delete;
  operation_handle& operator=(const operation_handle&) = delete;
  ~operation_handle();

  std::uint32_t number() const { return number_; }
  bool settled() const { return operation_.settled(); }
  /// Whether the output is complete for every reader.
  bool ended_well() const { return operation_.released() && !operation_.failed(); }
  /// Returns when the operation has ended well. Raises its error, or the exception of a Python signal handler that
  /// ran meanwhile. For an input in the memory of a device, the current stream of its framework then waits for the
  /// output, instead of this thread.
  void wait() const;
  /// The same, but raises `timed out` after this time; the operation goes on.
  void wait_for(double seconds) const;
  /// Waits, and returns the output array that the caller gave.
  nanobind::object finish() const;
  void cancel() { operation_.cancel(); }
  nanobind::object output() const { return owner_of(output_); }
  /// Bytes that the core allocated, as a DLPack capsule that keeps them alive.
  nanobind::object dlpack() const;
  /// The same bytes as a NumPy array.
  nanobind::object array() const;
  nanobind::tuple first_dims() const;
  result_kind kind() const { return operation_.result().kind; }
  std::int32_t last_rank() const { return operation_.result().last_rank; }

  /// Sets the type and the shape of an output whose number of rows only the core knows.
  void describe_rows(farandole::dtype type, farandole::shape input_shape);

private:
  friend void wait_all(nanobind::list handles);
  /// Without the GIL. `stream`: see device_stream().
  error wait_quietly(std::chrono::steady_clock::time_point deadline, std::optional<void*> stream,
                     const std::function<bool()>& raised) const;
  /// The stream that shall wait for the output instead of this thread; nothing in host memory, and if it is unknown.
  std::optional<void*> device_stream() const;
  void wait_until(std::chrono::steady_clock::time_point deadline) const;
  /// The type and the shape of an output that the core allocated.
  farandole::dtype output_dtype() const;
  farandole::shape output_shape() const;

  std::shared_ptr<process_runtime> owner_;
  farandole::handle operation_;
  nanobind::object input_;
  nanobind::object output_;
  std::uint32_t number_;
  std::int32_t device_; ///< of input and output; -1: host memory
  farandole::dtype dtype_ = farandole::dtype::uint8;
  farandole::shape shape_;
};

/// Waits for all operations, the last one first: it tends to end last, which saves wake-ups. When none is pending any
/// more, raises the error of the first one in the list that failed.
void wait_all(nanobind::list handles);

/// Leaves the job in order; does nothing in a forked child. The exception of a signal handler ends the wait, but not
/// the departure.
void shut_down(const std::shared_ptr<process_runtime>& running, departure manner);

/// Runs `work` without the GIL on a thread of its own, and waits for it. Wakes for signals and raises the exception
/// of a signal handler; the work then continues without a waiter.
void run_interruptibly(std::function<void()> work);

} // namespace farandole::native
