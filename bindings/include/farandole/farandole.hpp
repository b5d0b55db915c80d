// Farandole for C++20 programs: training and serving services that run collective operations across processes.
//
// This header is all of the C++ interface; it includes the types of its arguments and results (values.hpp). They are
// types over the C interface (farandole.h), whose rules of threads, memory and errors hold here as well, and which keeps
// programs independent of the compiler that built the library. A `runtime` is one member of one job; several runtimes
// (of several jobs) may live in one process. Expected failures are values of type `error`, whose kind says what to do;
// only the standard library throws (std::bad_alloc).
//
//     auto job = farandole::runtime::start();
//     std::vector<double> values = …;
//     if (auto problem = (*job)->allreduce("loss", std::span(values)))
//       std::cerr << problem.text;
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <farandole/farandole.h>
#include <farandole/values.hpp>

namespace farandole {

namespace detail {

inline error error_from(farandole_status status, const farandole_error& reason) {
  return status == FARANDOLE_OK ? error{} : error{static_cast<error_kind>(status), reason.text};
}

/// Runs a function of the C interface that reports through a farandole_error.
template <class Call>
error call(Call function) {
  farandole_error reason;
  reason.text[0] = '\0';
  const auto status = function(&reason);
  return error_from(status, reason);
}

inline std::int64_t milliseconds_until(std::chrono::steady_clock::time_point deadline) {
  using namespace std::chrono;
  if (deadline == steady_clock::time_point::max())
    return -1;
  return std::max<std::int64_t>(0, ceil<milliseconds>(deadline - steady_clock::now()).count());
}

/// The struct points into `wanted` and `name`.
inline farandole_submission row_of(const submission& wanted, const std::string& name) {
  farandole_submission row = FARANDOLE_SUBMISSION_INIT;
  row.name = name.c_str();
  row.operation = static_cast<std::int32_t>(wanted.signature.operation);
  row.dtype = static_cast<std::int32_t>(wanted.signature.dtype);
  row.reduce_op = static_cast<std::int32_t>(wanted.signature.reduce_op);
  row.root = wanted.signature.root;
  row.prescale = wanted.signature.prescale;
  row.postscale = wanted.signature.postscale;
  row.shape = wanted.signature.shape.data();
  row.dimensions = wanted.signature.shape.size();
  row.input = wanted.input;
  row.output = wanted.output;
  row.set = wanted.set;
  row.splits = wanted.splits.data();
  row.split_count = wanted.splits.size();
  row.completion_mode = static_cast<std::int32_t>(wanted.completion);
  row.device = wanted.device;
  row.stream = wanted.stream;
  row.readiness = static_cast<std::int32_t>(wanted.readiness);
  return row;
}

} // namespace detail

/// One operation in flight. Copies share it. All copies may be dropped: the operation goes on and its buffers must stay
/// valid until it has settled (on_settled() tells when), in GPU memory until it is released.
class handle {
public:
  handle() = default; ///< of no operation: the other functions need one
  explicit handle(farandole_handle* owned) : operation_(owned, &farandole_release) {}

  explicit operator bool() const { return operation_ != nullptr; }

  /// Whether the operation has ended, with success or not. Never blocks.
  bool settled() const { return farandole_poll(operation_.get()) != 0; }

  /// Whether the operation has ended and its buffers are no longer in use. Never blocks.
  bool released() const { return farandole_released(operation_.get()) != 0; }

  /// As wait(), but the work that `stream` is given from now on waits for the GPU instead of this thread; see
  /// farandole_wait_on_stream().
  farandole::error wait_on_stream(void* stream, std::chrono::steady_clock::time_point deadline =
                                                    std::chrono::steady_clock::time_point::max()) const {
    return detail::call([&](farandole_error* reason) {
      return farandole_wait_on_stream(operation_.get(), stream, detail::milliseconds_until(deadline), reason);
    });
  }

  /// Waits until the operation has ended and returns its error; of kind `timed_out` once the deadline has passed, while
  /// the operation goes on.
  farandole::error
  wait(std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max()) const {
    return detail::call([&](farandole_error* reason) {
      return farandole_wait(operation_.get(), detail::milliseconds_until(deadline), reason);
    });
  }

  /// The result, or the error of the operation; `precondition` before it has settled.
  expected<farandole::result> result() const {
    farandole_result found{};
    auto problem = detail::call(
        [&](farandole_error* reason) { return farandole_get_result(operation_.get(), &found, reason); });
    if (problem)
      return problem;
    return farandole::result{{static_cast<const std::byte*>(found.bytes), found.byte_count},
                             {found.first_dims, found.first_dim_count},
                             found.last_rank};
  }

  /// Calls `callback` once, when the operation has settled; see farandole_on_settled(). At most one for a handle:
  /// `invalid_argument` for a second. It must not throw.
  farandole::error on_settled(std::function<void()> callback) {
    auto context = std::make_unique<std::function<void()>>(std::move(callback));
    auto problem = detail::call([&](farandole_error* reason) {
      return farandole_on_settled(
          operation_.get(),
          [](void* given) {
            const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(given));
            (*owned)();
          },
          context.get(), reason);
    });
    if (!problem)
      static_cast<void>(context.release()); // the callback frees it
    return problem;
  }

  /// Cancels the operation unless it has been scheduled; it then ends `aborted` on all members.
  void cancel() { farandole_cancel(operation_.get()); }

private:
  std::shared_ptr<farandole_handle> operation_;
};

/// One process's membership in a job.
class runtime {
public:
  /// Joins the job that the settings name; a job of one process if they name none. Returns when the connections of this
  /// member are up; blocks at most the start timeout, in an elastic job the elastic timeout.
  static expected<std::unique_ptr<runtime>> start(const options& options = {}) {
    std::vector<farandole_setting> settings;
    for (const auto& [name, value] : options.settings)
      settings.push_back({name.c_str(), value.c_str()});
    std::vector<farandole_process_set> sets;
    for (const auto& ranks : options.process_sets)
      sets.push_back({ranks.data(), ranks.size()});
    farandole_options given = FARANDOLE_OPTIONS_INIT;
    given.settings = settings.data();
    given.setting_count = settings.size();
    given.read_environment = options.read_environment;
    given.secret = options.secret.empty() ? nullptr : options.secret.data();
    given.secret_bytes = options.secret.size();
    given.process_sets = sets.data();
    given.process_set_count = sets.size();
    given.progress = options.progress;
    given.state_generation = options.state_generation;
    given.epoch = options.epoch;
    farandole_runtime* started = nullptr;
    auto problem =
        detail::call([&](farandole_error* reason) { return farandole_start(&given, &started, reason); });
    if (problem)
      return problem;
    return std::unique_ptr<runtime>(new runtime(started));
  }

  /// As shutdown().
  ~runtime() = default;
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;

  /// Leaves in order, which ends the job for the other members too; see farandole_shutdown(). Idempotent.
  void shutdown() { farandole_shutdown(member_.get()); }

  /// Whether operations can be submitted.
  bool alive() const { return farandole_alive(member_.get()) != 0; }

  std::int32_t rank() const { return farandole_rank(member_.get()); }
  std::int32_t size() const { return farandole_size(member_.get()); }
  std::int32_t local_rank() const { return farandole_local_rank(member_.get()); }
  std::int32_t local_size() const { return farandole_local_size(member_.get()); }
  std::int32_t cross_rank() const { return farandole_cross_rank(member_.get()); }
  std::int32_t cross_size() const { return farandole_cross_size(member_.get()); }
  /// Whether every host has the same local size.
  bool is_homogeneous() const { return farandole_is_homogeneous(member_.get()) != 0; }

  /// Writes a timeline of the operations to this file from now on, on rank 0 only; see farandole_start_timeline().
  error start_timeline(const std::string& path, bool mark_cycles = false) {
    return detail::call([&](farandole_error* reason) {
      return farandole_start_timeline(member_.get(), path.c_str(), mark_cycles ? 1 : 0, reason);
    });
  }
  /// Completes the file.
  error stop_timeline() {
    return detail::call(
        [&](farandole_error* reason) { return farandole_stop_timeline(member_.get(), reason); });
  }

  /// Records that a training step ends here; see farandole_mark_step().
  error mark_step() {
    return detail::call([&](farandole_error* reason) { return farandole_mark_step(member_.get(), reason); });
  }

  /// Waits for the next report of tensors that some ranks have submitted and others have not; see
  /// farandole_next_stall().
  expected<stall_report>
  next_stall(std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max()) {
    std::vector<char> text(std::size_t{64} << 10);
    int over = 0;
    auto problem = detail::call([&](farandole_error* reason) {
      return farandole_next_stall(member_.get(), detail::milliseconds_until(deadline), text.data(),
                                  text.size(), &over, reason);
    });
    if (problem)
      return problem;
    return stall_report{text.data(), over != 0};
  }

  // ---- Elastic jobs; see farandole.h ----

  std::uint64_t generation() const { return farandole_generation(member_.get()); }
  std::uint64_t epoch() const { return farandole_epoch(member_.get()); }
  bool must_sync() const { return farandole_must_sync(member_.get()) != 0; }
  bool joined_late() const { return farandole_joined_late(member_.get()) != 0; }
  /// The number of changes of membership that wait for all members to leave this generation, and whether all of them
  /// are removals.
  std::pair<std::uint64_t, bool> membership_change() const {
    std::uint64_t changes = 0;
    int removals_only = 0;
    farandole_membership_change(member_.get(), &changes, &removals_only);
    return {changes, removals_only != 0};
  }
  void withdraw() { farandole_withdraw(member_.get()); }

  // ---- Operations of any dtype and shape, asynchronous ----

  /// Submits one tensor; does not wait. For errors see farandole_submit().
  expected<handle> submit(const submission& request) {
    const std::string name(request.name);
    const auto row = detail::row_of(request, name);
    farandole_handle* submitted = nullptr;
    auto problem = detail::call(
        [&](farandole_error* reason) { return farandole_submit(member_.get(), &row, &submitted, reason); });
    if (problem)
      return problem;
    return handle(submitted);
  }

  /// Submits tensors that become ready together, all or none, in one process set.
  expected<std::vector<handle>> submit_group(std::span<const submission> requests) {
    std::vector<std::string> names;
    names.reserve(requests.size());
    std::vector<farandole_submission> rows;
    for (const auto& request : requests)
      rows.push_back(detail::row_of(request, names.emplace_back(request.name)));
    std::vector<farandole_handle*> submitted(requests.size());
    auto problem = detail::call([&](farandole_error* reason) {
      return farandole_submit_group(member_.get(), rows.data(), rows.size(), submitted.data(), reason);
    });
    if (problem)
      return problem;
    return std::vector<handle>(submitted.begin(), submitted.end());
  }

  // ---- Operations on spans: each submits a tensor of one dimension and waits for it ----
  //
  // A timeout ends the wait with an error of kind `timed_out`; the operation goes on and still uses the span, so shut
  // the runtime down before you free it.

  /// Replaces `values` by their reduction over all ranks, in place; the same number of values on all ranks.
  template <element T, std::size_t Extent>
  error allreduce(std::string_view name, std::span<T, Extent> values, const call_options& call = {}) {
    auto request = reducing(operation::allreduce, name, as_const(values), call);
    request.output = reinterpret_cast<std::byte*>(values.data());
    return run(request, call).second;
  }

  /// Replaces `values` by those of the root, a global rank.
  template <element T, std::size_t Extent>
  error broadcast(std::string_view name, std::span<T, Extent> values, std::int32_t root,
                  const call_options& call = {}) {
    auto request = moving(operation::broadcast, name, as_const(values), call);
    request.signature.root = root;
    request.output = reinterpret_cast<std::byte*>(values.data());
    return run(request, call).second;
  }

  /// The values of all ranks, in rank order; ranks may have different numbers of them.
  template <class T, std::size_t Extent>
  requires element<std::remove_const_t<T>> expected<std::vector<std::remove_const_t<T>>>
  allgather(std::string_view name, std::span<T, Extent> values, const call_options& call = {}) {
    return gathered<std::remove_const_t<T>>(moving(operation::allgather, name, as_const(values), call), call);
  }

  /// Sends `splits[r]` values to each rank r of the set; the values received, in rank order. No splits: equal parts.
  template <class T, std::size_t Extent>
  requires element<std::remove_const_t<T>> expected<std::vector<std::remove_const_t<T>>>
  alltoall(std::string_view name, std::span<T, Extent> values, std::span<const std::int64_t> splits = {},
           const call_options& call = {}) {
    auto request = moving(operation::alltoall, name, as_const(values), call);
    request.splits = splits;
    return gathered<std::remove_const_t<T>>(request, call);
  }

  /// This rank's segment of the reduction of `values` over all ranks; see FARANDOLE_REDUCESCATTER.
  template <class T, std::size_t Extent>
  requires element<std::remove_const_t<T>> expected<std::vector<std::remove_const_t<T>>>
  reducescatter(std::string_view name, std::span<T, Extent> values, const call_options& call = {}) {
    return gathered<std::remove_const_t<T>>(reducing(operation::reducescatter, name, as_const(values), call),
                                            call);
  }

  /// Returns when every member of the set has called it with this name.
  error barrier(std::string_view name, const call_options& call = {}) {
    submission request;
    request.name = name;
    request.signature.operation = operation::barrier;
    request.set = call.set;
    request.completion = completion_mode::wait;
    return run(request, call).second;
  }

  // ---- Process sets: collective, every member of the job makes the same call; see farandole_add_process_set() ----

  /// The id of the new set.
  expected<std::uint32_t> add_process_set(std::span<const std::int32_t> ranks) {
    const farandole_process_set wanted{ranks.data(), ranks.size()};
    std::uint32_t set = 0;
    auto problem = detail::call([&](farandole_error* reason) {
      return farandole_add_process_set(member_.get(), &wanted, &set, reason);
    });
    if (problem)
      return problem;
    return set;
  }

  error remove_process_set(std::uint32_t set) {
    return detail::call(
        [&](farandole_error* reason) { return farandole_remove_process_set(member_.get(), set, reason); });
  }

  /// The global ranks of each process set by its id, the global set included.
  expected<std::map<std::uint32_t, std::vector<std::int32_t>>> process_sets() const {
    std::map<std::uint32_t, std::vector<std::int32_t>> sets;
    const auto ids = listed<std::uint32_t>(
        [&](auto... arguments) { return farandole_list_process_sets(member_.get(), arguments...); });
    if (!ids)
      return ids.error();
    for (const auto id : *ids)
      if (auto ranks = listed<std::int32_t>(
              [&](auto... arguments) { return farandole_list_ranks(member_.get(), id, arguments...); }))
        sets.emplace(id, std::move(*ranks)); // a set that was removed in between is left out
    return sets;
  }

private:
  struct free_member {
    void operator()(farandole_runtime* member) const { farandole_free(member); }
  };

  explicit runtime(farandole_runtime* owned) : member_(owned) {}

  template <class T, std::size_t Extent>
  static std::span<const std::remove_const_t<T>> as_const(std::span<T, Extent> values) {
    return values;
  }

  template <class T>
  static submission moving(operation operation, std::string_view name, std::span<const T> values,
                           const call_options& call) {
    submission request;
    request.name = name;
    request.signature.operation = operation;
    request.signature.dtype = *dtype_of<T>();
    request.signature.shape = {static_cast<std::int64_t>(values.size())};
    request.input = reinterpret_cast<const std::byte*>(values.data());
    request.set = call.set;
    request.completion = completion_mode::wait;
    return request;
  }

  template <class T>
  static submission reducing(operation operation, std::string_view name, std::span<const T> values,
                             const call_options& call) {
    auto request = moving(operation, name, values, call);
    request.signature.reduce_op = call.reduce_op;
    request.signature.prescale = call.prescale;
    request.signature.postscale = call.postscale;
    return request;
  }

  std::pair<handle, error> run(const submission& request, const call_options& call) {
    using clock = std::chrono::steady_clock;
    const auto deadline = call.timeout.count() < 0 ? clock::time_point::max() : clock::now() + call.timeout;
    auto submitted = submit(request);
    if (!submitted)
      return {handle(), submitted.error()};
    return {*submitted, submitted->wait(deadline)};
  }

  template <element T>
  expected<std::vector<T>> gathered(const submission& request, const call_options& call) {
    auto [operation, problem] = run(request, call);
    if (problem)
      return problem;
    auto received = operation.result();
    if (!received)
      return received.error();
    const auto* values = reinterpret_cast<const T*>(received->bytes.data());
    return std::vector<T>(values, values + received->bytes.size() / sizeof(T));
  }

  /// Calls a function that writes at most as many numbers as there is room for, until there is room for all.
  template <class Number, class List>
  static expected<std::vector<Number>> listed(List list) {
    std::vector<Number> numbers;
    for (std::size_t count = 0;;) {
      auto problem = detail::call(
          [&](farandole_error* reason) { return list(numbers.data(), numbers.size(), &count, reason); });
      if (problem)
        return problem;
      const bool complete = count <= numbers.size();
      numbers.resize(count);
      if (complete)
        return numbers;
    }
  }

  std::unique_ptr<farandole_runtime, free_member> member_;
};

} // namespace farandole
