#include "bindings/native/process_runtime.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "bindings/native/capsule.hpp"
#include "bindings/native/kernel_api.hpp"
#include "bindings/native/raise.hpp"

namespace nb = nanobind;

namespace farandole::native {
namespace {

/// Whether a Python signal handler raised; its exception is then pending in this thread.
bool interrupted() {
  nb::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0;
}

[[noreturn]] void raise_pending() {
  throw nb::python_error();
}

} // namespace

process_runtime::process_runtime(std::unique_ptr<farandole::runtime> started)
    : runtime_(std::move(started)) {}

process_runtime::~process_runtime() {
  if (!usable_here()) {
    // The parent's threads do not exist here: destroying the runtime would wait for them. Leaked on purpose.
    (void)runtime_.release();
    return;
  }
  close_to_kernels(*this);
  nb::gil_scoped_acquire gil; // the last reference may be dropped by an interrupted shutdown's thread
  {
    nb::gil_scoped_release no_gil;
    runtime_.reset();
  }
  // Devices may still write arrays whose operations have failed.
  sweep();
  for (auto& item : parked_)
    left_behind().push_back(std::move(item));
  parked_.clear();
}

void process_runtime::require_usable() const {
  if (!usable_here())
    raise(forked_error());
}

void process_runtime::wait_for_devices() const {
  error problem;
  {
    nb::gil_scoped_release no_gil;
    problem = runtime_->wait_for_devices(interrupted);
  }
  if (PyErr_Occurred())
    raise_pending();
  if (problem)
    raise(problem);
}

void process_runtime::park(farandole::handle operation, nb::object input, nb::object output) {
  operation.leave();
  parked_.push_back({std::move(operation), std::move(input), std::move(output)});
}

// Of runtimes that have ended; the next one lets go of them. The GIL guards the list. Leaked on purpose, because arrays
// cannot be dropped when the interpreter has ended.
std::vector<process_runtime::parked>& process_runtime::left_behind() {
  static auto& arrays = *new std::vector<parked>;
  return arrays;
}

void process_runtime::sweep() {
  if (parked_.empty() && left_behind().empty())
    return;
  // Dropping an array may run Python code that drops another handle, so the arrays are dropped when the lists are
  // whole.
  std::vector<parked> done;
  for (auto* list : {&parked_, &left_behind()})
    for (std::size_t i = 0; i < list->size();) {
      auto& item = (*list)[i];
      if (!item.operation.released()) {
        ++i;
        continue;
      }
      done.push_back(std::move(item));
      if (i + 1 != list->size())
        item = std::move(list->back());
      list->pop_back();
    }
}

void shut_down(const std::shared_ptr<process_runtime>& running, departure manner) {
  if (!running->usable_here())
    return;
  close_to_kernels(*running);
  run_interruptibly([running, how = std::move(manner)] { running->core().shutdown(how); });
  running->sweep();
}

operation_handle::operation_handle(std::shared_ptr<process_runtime> owner, farandole::handle operation,
                                   std::uint32_t number, nb::object input, nb::object output,
                                   std::int32_t device)
    : owner_(std::move(owner)), operation_(std::move(operation)), input_(std::move(input)),
      output_(std::move(output)), number_(number), device_(device) {}

operation_handle::~operation_handle() {
  if (operation_ && !operation_.released())
    owner_->park(std::move(operation_), std::move(input_), std::move(output_));
}

void operation_handle::describe_rows(farandole::dtype type, farandole::shape input_shape) {
  dtype_ = type;
  shape_ = std::move(input_shape);
}

error operation_handle::wait_quietly(std::chrono::steady_clock::time_point deadline,
                                     std::optional<void*> stream, const std::function<bool()>& raised) const {
  return stream ? operation_.wait_on_stream(*stream, deadline, raised) : operation_.wait(deadline, raised);
}

std::optional<void*> operation_handle::device_stream() const {
  return device_ < 0 ? std::nullopt : current_stream(input_, device_);
}

void operation_handle::wait() const {
  wait_until(std::chrono::steady_clock::time_point::max());
}

void operation_handle::wait_for(double seconds) const {
  const std::chrono::duration<double> longest{std::clamp(seconds, 0.0, 1e9)};
  wait_until(std::chrono::steady_clock::now() +
             std::chrono::duration_cast<std::chrono::nanoseconds>(longest));
}

void operation_handle::wait_until(std::chrono::steady_clock::time_point deadline) const {
  error problem;
  if (operation_.ready_for_streams()) {
    problem = operation_.problem();
  } else {
    const auto stream = device_stream();
    nb::gil_scoped_release no_gil;
    problem = wait_quietly(deadline, stream, interrupted);
  }
  if (PyErr_Occurred())
    raise_pending();
  if (problem)
    raise(problem);
}

nb::object operation_handle::finish() const {
  wait();
  return output();
}

void wait_all(nb::list handles) {
  std::vector<const operation_handle*> waited;
  std::vector<std::optional<void*>> streams;
  waited.reserve(nb::len(handles));
  for (nb::handle handle : handles) {
    waited.push_back(nb::cast<const operation_handle*>(handle));
    streams.push_back(waited.back()->device_stream());
  }
  if (waited.empty())
    return;
  error device_problem; // of an operation that has ended well otherwise
  {
    nb::gil_scoped_release no_gil;
    bool has_raised = false;
    const auto raised = [&] { return has_raised = interrupted(); };
    for (auto i = waited.size(); i-- > 0 && !has_raised;) {
      if (waited[i]->operation_.ready_for_streams())
        continue;
      constexpr auto never = std::chrono::steady_clock::time_point::max();
      if (auto problem = waited[i]->wait_quietly(never, streams[i], raised))
        device_problem = std::move(problem);
    }
  }
  if (PyErr_Occurred())
    raise_pending();
  for (const operation_handle* entry : waited)
    if (error problem = entry->operation_.problem())
      raise(problem);
  if (device_problem)
    raise(device_problem);
}

farandole::dtype operation_handle::output_dtype() const {
  const auto& result = operation_.result();
  return result.kind == result_kind::rows ? result.dtype : dtype_;
}

farandole::shape operation_handle::output_shape() const {
  const auto& result = operation_.result();
  farandole::shape extents =
      result.kind == result_kind::rows ? farandole::shape{0, result.row_elements} : shape_;
  extents.at(0) = 0;
  for (std::int64_t rows : result.first_dims)
    extents.at(0) += rows;
  return extents;
}

nb::object operation_handle::dlpack() const {
  return capsule_of(operation_, output_dtype(), output_shape());
}

nb::object operation_handle::array() const {
  return array_of(operation_, output_dtype(), output_shape());
}

nb::tuple operation_handle::first_dims() const {
  const auto& dims = operation_.result().first_dims;
  nb::list rows;
  for (std::int64_t dim : dims)
    rows.append(dim);
  return nb::tuple(rows);
}

void run_interruptibly(std::function<void()> work) {
  struct shared_state {
    std::mutex guard;
    std::condition_variable changed;
    bool done = false;
  };
  auto shared = std::make_shared<shared_state>();
  nb::gil_scoped_release no_gil;
  // The new thread blocks all signals: they are for the waiting thread, which runs Python's handlers.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  auto run = [shared, work = std::move(work)]() mutable {
    pthread_setname_np(pthread_self(), "fd-call");
    work();
    // Destroys the captured objects while the caller still waits. Afterwards the interpreter may be ending, and a
    // thread that then asks for the GIL is torn down in the middle of a destructor.
    work = nullptr;
    std::lock_guard lock(shared->guard);
    shared->done = true;
    shared->changed.notify_all();
  };
  try {
    std::thread(std::move(run)).detach();
  } catch (const std::system_error& lack) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw std::runtime_error(
        "this process has too little memory, or may not start the threads that it needs (" +
        std::string(lack.what()) + "): raise its limits (ulimit -v, ulimit -u)");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::unique_lock lock(shared->guard);
  while (!shared->changed.wait_for(lock, std::chrono::milliseconds(50), [&] { return shared->done; })) {
    lock.unlock();
    if (interrupted()) {
      nb::gil_scoped_acquire gil;
      raise_pending();
    }
    lock.lock();
  }
}

} // namespace farandole::native
