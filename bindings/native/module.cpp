// The Python module farandole._native: one runtime, its operations, and their handles. It is a thin layer on the C++
// interface and the core's reusable memory. Names, defaults and frameworks are handled by the Python core above it.
#include "bindings/native/nanobind.hpp"
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/gpu/process_gpus.hpp"
#include "actors/rendezvous/job_secret.hpp"
#include "actors/submission/device_gate.hpp"
#include "bindings/native/capsule.hpp"
#include "bindings/native/foreign_job.hpp"
#include "bindings/native/kept.hpp"
#include "bindings/native/kernel_api.hpp"
#include "bindings/native/process_runtime.hpp"
#include "bindings/native/raise.hpp"
#include "bindings/native/set_rules.hpp"
#include "bindings/native/submit.hpp"
#include "bindings/native/termination.hpp"
#include "elastic/retry_delay.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace farandole::native {
namespace {

/// The runtime is shared with the handles, which may outlive this object.
struct python_runtime {
  std::shared_ptr<process_runtime> running;
};

python_runtime start(const std::map<std::string, std::string>& settings, bool read_environment,
                     const std::string& secret, const std::vector<std::vector<std::int32_t>>& process_sets,
                     const std::vector<std::int32_t>& mpi_ranks, std::uint64_t progress,
                     const nb::list& set_rules, const std::optional<std::vector<kept_tuple>>& sets_before,
                     std::uint64_t epoch, std::uint64_t state_generation) {
  options options{settings, read_environment, secret, process_sets, mpi_ranks, progress};
  options.epoch = epoch;
  options.state_generation = state_generation;
  for (nb::handle set_rule : set_rules)
    options.set_rules.push_back(rule_of(set_rule));
  if (sets_before)
    options.sets_before = kept_from(*sets_before);
  // Shared with the starting thread, which may outlive an interrupted call.
  auto outcome = std::make_shared<std::optional<expected<std::unique_ptr<runtime>>>>();
  run_interruptibly([outcome, how = std::move(options)] { outcome->emplace(runtime::start(how)); });
  if (!**outcome)
    raise((*outcome)->error());
  return {std::make_shared<process_runtime>(std::move(***outcome))};
}

// Both calls are collective and wait for other ranks, so they run on a thread of their own, as starting does.
std::uint32_t add_process_set(const python_runtime& self, const std::vector<std::int32_t>& ranks) {
  self.running->require_usable();
  auto outcome = std::make_shared<std::optional<expected<std::uint32_t>>>();
  run_interruptibly(
      [outcome, running = self.running, ranks] { outcome->emplace(running->core().add_process_set(ranks)); });
  if (!**outcome)
    raise((*outcome)->error());
  self.running->count_anew(***outcome);
  return ***outcome;
}

void remove_process_set(const python_runtime& self, std::uint32_t set) {
  self.running->require_usable();
  auto problem = std::make_shared<error>();
  run_interruptibly(
      [problem, running = self.running, set] { *problem = running->core().remove_process_set(set); });
  if (*problem)
    raise(*problem);
}

std::vector<kept_tuple> kept_sets(const python_runtime& self) {
  return tuples_of(self.running->core().kept_sets());
}

void acknowledge_restart(const python_runtime& self, std::uint32_t set, std::uint64_t epoch) {
  self.running->require_usable();
  auto problem = std::make_shared<error>();
  run_interruptibly([problem, running = self.running, set, epoch] {
    *problem = running->core().acknowledge_restart(set, epoch);
  });
  if (*problem)
    raise(*problem);
}

// Both wait for the disk.
void start_timeline(const python_runtime& self, const std::string& path, bool mark_cycles) {
  error problem;
  {
    nb::gil_scoped_release no_gil;
    problem = self.running->core().start_timeline(path, mark_cycles);
  }
  if (problem)
    raise(problem);
}

void stop_timeline(const python_runtime& self) {
  error problem;
  {
    nb::gil_scoped_release no_gil;
    problem = self.running->core().stop_timeline();
  }
  if (problem)
    raise(problem);
}

void mark_step(const python_runtime& self) {
  if (auto problem = self.running->core().mark_step())
    raise(problem);
}

// None when this member has left the job.
std::optional<std::pair<std::string, bool>> next_stall(const python_runtime& self) {
  nb::gil_scoped_release no_gil;
  auto report = self.running->core().next_stall();
  return report ? std::optional(std::move(*report)) : std::nullopt;
}

request make_request(int op, const std::string& prefix, int reduce, std::int32_t root, double prescale,
                     double postscale, bool waits) {
  const auto reduction = reduce_op_from(static_cast<std::uint32_t>(reduce));
  if (op < 0 || static_cast<std::size_t>(op) >= operation_count || !reduction)
    raise_value_error("no such operation or reduction");
  const auto completion = waits ? completion_mode::wait : completion_mode::any;
  return {static_cast<operation>(op), prefix, *reduction, root, prescale, postscale, completion};
}

nb::dict count(const python_runtime& self) {
  const runtime::counters current = self.running->core().count();
  nb::dict counted;
  counted["submitted"] = current.submitted;
  counted["on_fast_path"] = current.on_fast_path;
  counted["bundles"] = current.bundles;
  counted["loop_wakeups"] = current.loop_wakeups;
  counted["bytes_moved"] = current.bytes_moved;
  counted["by_nccl"] = current.by_nccl;
  return counted;
}

nb::object memory(const python_runtime& self, std::uint32_t type, std::int64_t elements) {
  const auto element_type = dtype_from(type);
  if (!element_type)
    raise_value_error("no such type");
  return capsule_of(self.running->memory(), *element_type, elements);
}

void define_request(nb::module_& module) {
  nb::class_<request>(
      module, "Request",
      "The description of a call without its tensors; created once and reused. With `waits` the "
      "caller waits at once, and may then move the bytes itself.")
      .def(nb::new_(&make_request), "operation"_a, "prefix"_a, "reduce_op"_a = 1, "root"_a = -1,
           "prescale"_a = 1.0, "postscale"_a = 1.0, "waits"_a = false)
      .def_ro("prefix", &request::prefix, "Prefix of names: the operation, as callers know it.")
      .def_prop_ro(
          "waits", [](const request& asked) { return asked.completion == completion_mode::wait; },
          "Whether the caller waits at once.");
}

void define_handle(nb::module_& module) {
  nb::class_<operation_handle>(module, "Handle",
                               "One operation in flight; keeps its arrays until it is settled.")
      .def_prop_ro("number", &operation_handle::number, "The call's number in this process.")
      .def("settled", &operation_handle::settled, "Whether it has ended, well or not. Never blocks.")
      .def("wait", &operation_handle::wait, "Waits without the GIL; raises the error of the operation.")
      .def("wait_for", &operation_handle::wait_for, "seconds"_a,
           "Like wait(), for at most this many seconds; then raises that it has timed out, and the operation "
           "goes on.")
      .def("cancel", &operation_handle::cancel,
           "Withdraws it on all ranks, unless it has been scheduled; it then ends `aborted`.")
      .def("finish", &operation_handle::finish, "Waits, then gives the array that was given as output.")
      .def_prop_ro("output", &operation_handle::output, "The array given as output.")
      .def("dlpack", &operation_handle::dlpack, "The result that the core allocated, as a DLPack capsule.")
      .def("array", &operation_handle::array,
           "The result that the core allocated, as a NumPy array; bfloat16 as uint16.")
      .def_prop_ro("first_dims", &operation_handle::first_dims,
                   "Rows that each rank brought to an allgather, or that came from each by an alltoall; of a "
                   "reducescatter, those of this rank's segment.")
      .def_prop_ro(
          "has_result", [](const operation_handle& self) { return self.kind() != result_kind::none; },
          "False if no rank has contributed.")
      .def_prop_ro(
          "has_rows", [](const operation_handle& self) { return self.kind() == result_kind::rows; },
          "Whether this rank was absent, and the others gathered other rows than it asked for: see "
          "dlpack().")
      .def_prop_ro("last_rank", &operation_handle::last_rank, "The rank that joined last.");
  module.def("wait_all", &wait_all, "handles"_a, "Waits for all; raises the error of the first that failed.");
}

template <auto Getter>
auto ask(const python_runtime& self) {
  return (self.running->core().*Getter)();
}

nb::object submit_pending(const python_runtime& self, kept_calls& kept, const request& request,
                          nb::handle name, nb::handle input, nb::handle output, nb::handle set) {
  operation_handle started = submit(self.running, request, name, input, output, set, nb::none());
  nb::object number = nb::int_(started.number());
  kept.add(std::move(started));
  return number;
}

nb::object submit_and_wait(const python_runtime& self, const request& request, nb::handle name,
                           nb::handle input, nb::handle output, nb::handle set) {
  return submit(self.running, request, name, input, output, set, nb::none(), false).finish();
}

void define_kept(nb::module_& module) {
  nb::class_<kept_calls>(module, "PendingHandles", "Calls by their numbers, until their results are fetched.")
      .def(nb::init<>())
      .def("add", &kept_calls::add_call, "call"_a, "Keeps a call under its number, which it returns.")
      .def("output_of_settled", &kept_calls::output_of_settled, "number"_a.none(),
           "Of an operation that has ended well: forgets it and gives the array that was given as output. "
           "NotImplemented for everything else.")
      .def("get", &kept_calls::get, "number"_a.none(), "The call with this number, or None.")
      .def("forget", &kept_calls::forget, "number"_a)
      .def("clear", &kept_calls::clear);
}

void define_runtime(nb::module_& module) {
  nb::class_<python_runtime>(module, "Runtime", "One member of one job.")
      .def_static("start", &start, "settings"_a = std::map<std::string, std::string>{},
                  "read_environment"_a = true, "secret"_a = "",
                  "process_sets"_a = std::vector<std::vector<std::int32_t>>{},
                  "mpi_ranks"_a = std::vector<std::int32_t>{}, "progress"_a = 0, "set_rules"_a = nb::list(),
                  "sets_before"_a = nb::none(), "epoch"_a = 0, "state_generation"_a = 0,
                  "Joins the job that the settings and the environment name.")
      .def(
          "shutdown",
          [](const python_runtime& self, bool script_ended, const std::string& exception, int code) {
            auto kind = script_ended ? departure_kind::script_ended : departure_kind::shutdown_called;
            if (code != 0)
              kind = departure_kind::exited;
            else if (!exception.empty())
              kind = departure_kind::uncaught_exception;
            shut_down(self.running, {kind, exception, 0, code});
          },
          "script_ended"_a = false, "exception"_a = "", "code"_a = 0,
          "Leaves in order, and tells the other members how: by a call of shutdown(), by the end of the "
          "script, by an uncaught exception, which is given as text, or with an exit code other than 0, with "
          "the reason that the script gave as text.")
      .def(
          "open_to_kernels", [](const python_runtime& self) { open_to_kernels(self.running); },
          "Kernels of frameworks submit to this job from now on, until it is shut down.")
      .def_prop_ro("alive", &ask<&runtime::alive>)
      .def_prop_ro("usable_here", &ask<&runtime::usable_here>)
      .def_prop_ro("rank", &ask<&runtime::rank>)
      .def_prop_ro("size", &ask<&runtime::size>)
      .def_prop_ro("local_rank", &ask<&runtime::local_rank>)
      .def_prop_ro("local_size", &ask<&runtime::local_size>)
      .def_prop_ro("cross_rank", &ask<&runtime::cross_rank>)
      .def_prop_ro("cross_size", &ask<&runtime::cross_size>)
      .def_prop_ro("is_homogeneous", &ask<&runtime::is_homogeneous>)
      .def_prop_ro("generation", &ask<&runtime::generation>, "Counts memberships of the job, from 1.")
      .def_prop_ro(
          "object_key",
          [](const python_runtime& self) {
            const auto key = self.running->core().object_key();
            return nb::bytes(key.data(), key.size());
          },
          "32 bytes for tags of objects; empty if the data path authenticates its messages.")
      .def_prop_ro("slots", &ask<&runtime::slots>,
                   "Where the launcher put each rank; unlike ranks, slots stay.")
      .def_prop_ro("epoch", &ask<&runtime::epoch>,
                   "The highest epoch of a rendezvous that this process has obeyed.")
      .def_prop_ro("must_sync", &ask<&runtime::must_sync>,
                   "Whether members are at different steps; the same on all of them.")
      .def_prop_ro("joined_late", &ask<&runtime::joined_late>,
                   "Whether the job has run without this process.")
      .def("membership_change", &ask<&runtime::membership_change>,
           "How many changes of the members wait for all to leave this generation, and whether all are "
           "removals. "
           "Never blocks.")
      .def(
          "withdraw", [](const python_runtime& self) { self.running->core().withdraw(); },
          nb::call_guard<nb::gil_scoped_release>(),
          "Announces to all members that this process will leave, as if its host were removed. Returns once "
          "this process has heard of it, or a moment later if the rendezvous is away.")
      .def(
          "await_loop", [](const python_runtime& self, bool late) { self.running->core().await_loop(late); },
          "late"_a,
          "Until enter_loop(), operations fail if this process has joined late; otherwise rank 0 logs a "
          "warning at the first one. To be called once.")
      .def("enter_loop", [](const python_runtime& self) { self.running->core().enter_loop(); })
      .def("start_timeline", &start_timeline, "path"_a, "mark_cycles"_a = false,
           "Writes a timeline to this file from now on, on rank 0 only; completes the one before first.")
      .def("stop_timeline", &stop_timeline, "Completes the file.")
      .def("mark_step", &mark_step, "Records that a training step ends here.")
      .def(
          "wait_for_devices", [](const python_runtime& self) { self.running->wait_for_devices(); },
          "Waits until GPUs have done all work of operations that are settled; raises the error of one that "
          "did not.")
      .def("next_stall", &next_stall,
           "Waits for the next report of a stall: its text, and whether the stall is over. None after "
           "shutdown().")
      .def_prop_ro("has_mpi", &ask<&runtime::has_mpi>)
      .def_prop_ro("mpi_threads", &ask<&runtime::mpi_threads>)
      .def_static("mpi_is_installed", &runtime::mpi_is_installed,
                  "Whether jobs may be brought together by MPI here.")
      .def("add_process_set", &add_process_set, "ranks"_a,
           "Adds a process set on all members at once; gives its number.")
      .def("remove_process_set", &remove_process_set, "set"_a, "Removes one on all members at once.")
      .def("kept_sets", &kept_sets,
           "The value for sets_before in the next generation: (born, by rule, place, number, slots) of each "
           "set.")
      .def(
          "process_set_epoch",
          [](const python_runtime& self, std::uint32_t set) {
            return self.running->core().process_set_epoch(set);
          },
          "set"_a, "The number of restarts of this set that callers in this process know of.")
      .def_prop_ro(
          "joins", &ask<&runtime::joins>,
          "How many join operations this process has submitted; equal on all ranks between two joins.")
      .def(
          "unnamed",
          [](const python_runtime& self, std::uint32_t set, const std::string& prefix) {
            return self.running->unnamed(set, prefix);
          },
          "set"_a, "prefix"_a,
          "The name for the next call of this kind that has none. It stays the same until accepted_unnamed() "
          "records that the call was accepted.")
      .def(
          "accepted_unnamed",
          [](const python_runtime& self, std::uint32_t set, const std::string& prefix) {
            self.running->accepted_unnamed(set, prefix);
          },
          "set"_a, "prefix"_a, "Records that the call that unnamed() named was accepted.")
      .def("acknowledge_restart", &acknowledge_restart, "set"_a, "epoch"_a,
           "Records that callers in this process have learnt of this many restarts by other means than an "
           "error. Waits for at most the start timeout until this member has restarted the set so often, and "
           "raises if it has not.")
      .def("submitted", &ask<&runtime::submitted>,
           "How many operations this process has submitted to each of its sets, since the set last started.")
      .def("process_sets", &ask<&runtime::process_sets>, "Numbers and global ranks of all process sets.")
      .def("memory", &memory, "dtype"_a, "elements"_a,
           "Uninitialised memory for this many elements, as a DLPack capsule; large memory was used before, "
           "so "
           "that its pages are there.")
      .def("counters", &count, "Numbers for people and benchmarks.")
      .def(
          "submit",
          [](const python_runtime& self, const request& asked_request, nb::handle name, nb::handle input,
             nb::handle output, nb::handle set, nb::handle splits, bool absent) {
            return submit(self.running, asked_request, name, input, output, set, splits, absent);
          },
          "request"_a, "name"_a.none(), "input"_a.none(), "output"_a.none(), "set"_a.none(),
          "splits"_a = nb::none(), "absent"_a = false,
          "Hands one array in; no name: named after the call; no output: the core allocates; splits: rows of "
          "an "
          "alltoall for each rank, None for equal parts; absent: this rank contributes nothing.")
      .def("submit_pending", &submit_pending, "pending_handles"_a, "request"_a, "name"_a.none(),
           "input"_a.none(), "output"_a.none(), "set"_a.none(),
           "Like submit, but keeps the handle under its number, which it returns.")
      .def("submit_and_wait", &submit_and_wait, "request"_a, "name"_a.none(), "input"_a.none(),
           "output"_a.none(), "set"_a.none(), "Like submit, but waits, and returns the output.")
      .def(
          "submit_group",
          [](const python_runtime& self, const request& asked_request, nb::handle name, nb::list inputs,
             nb::handle outputs, nb::handle set, nb::handle absent) {
            return submit_group(self.running, asked_request, name, inputs, outputs, set, absent);
          },
          "request"_a, "name"_a.none(), "inputs"_a, "outputs"_a.none(), "set"_a.none(),
          "absent"_a = nb::none(),
          "Hands several arrays in, all or none: (request, name, list of names or None, inputs, outputs or "
          "None, set) -> [Handle]. absent: for each, whether this rank contributes nothing.")
      .def(
          "failures",
          [](const python_runtime& self, const request& asked_request, nb::handle name, nb::handle set) {
            return failures(*self.running, asked_request, name, set);
          },
          "request"_a, "name"_a, "set"_a.none(),
          "How many such operations of this name have failed on all ranks, because these disagreed. The "
          "number "
          "is the same on all ranks, while none of this name is in flight on this one.");
}

void define_foreign_jobs(nb::module_& module) {
  module.def("launched_by_mpi", &launched_by_mpi,
             "Whether mpirun or the like started this process, and no rendezvous is named.");
  module.def("place_in_environment", &place_of_process,
             "The position that launchers assigned to this process, as one text to compare: a process that a "
             "member starts inherits it.");
  module.def("discovery_timeout_s", &discovery_timeout_s,
             "How many seconds a discovery script of this process's jobs may run.");
  module.def("take_secret_variable", &take_secret_variable,
             "Moves the job's secret from FARANDOLE_SECRET, a variable of this process, into its memory.");
  module.def("torch_job", &torch_job,
             "(rank, size, seconds, text) of the job that this process has to join at MASTER_ADDR and "
             "MASTER_PORT, and of the start timeout; None where there is no such job.");
  nb::class_<store_meeting>(module, "StoreMeeting", "Where the ranks of a job meet that share a store.")
      .def_static(
          "hold", &store_meeting::hold, "store"_a, "rank"_a, "size"_a, "number"_a,
          "Waits until all ranks have come. The store has put(name, value), and get(rank, name), which "
          "waits for the value.")
      .def("close", &store_meeting::close,
           "Ends the rendezvous, which runs on rank 0. Does nothing in a forked child.")
      .def_prop_ro("ip", &store_meeting::ip)
      .def_prop_ro("port", &store_meeting::port)
      .def_prop_ro("new_secret", &store_meeting::new_secret,
                   "Made for this job; empty: its processes had been given one.");
}

void define_kernel_api(nb::module_& module) {
  module.def(
      "kernel_api", [] { return reinterpret_cast<std::uintptr_t>(&kernel_api()); },
      "Address of the table of functions that kernel libraries connect to "
      "(bindings/include/farandole/kernel_api.h).");
}

void define_devices(nb::module_& module) {
  module.def("devices_are_built_in", &devices::are_built_in,
             "Whether this build can use the memory of CUDA devices, where there is a driver.");
  module.def(
      "nccl_version", &usable_nccl_version,
      "The version code of the NCCL that this process would use, which is loaded; 0 if there is none that "
      "this build can use.");
  module.def(
      "why_no_devices",
      [] {
        const auto found = devices_of_process();
        return found ? std::string() : found.error().text;
      },
      "Why this process cannot use the memory of CUDA devices; empty if it can. Loads the driver.");
}

void define_termination(nb::module_& module) {
  module.def(
      "expect_children", &expect_children, "launcher"_a,
      "This process is a member of an elastic job: children that it forks from now on can be guarded.");
  module.def("catch_termination", &catch_termination, "launcher"_a,
             "From now on SIGTERM is remembered, unless it has a handler already; whether it is.");
  module.def("termination_came", &termination_came, "Whether SIGTERM was remembered.");
  module.def("release_termination", &release_termination,
             "Restores the default action of SIGTERM, unless another handler is installed.");
  module.def(
      "guard_forked_child", &guard_forked_child,
      "In a forked child: ignores SIGTERM as long as the member is inside of its elastic loop, and ends "
      "with its parent then. Whether it does.");
}

void define_retry_delay(nb::module_& module) {
  module.def(
      "retry_delay_s",
      [](int failures, double uniform) {
        const auto delay =
            retry_delay(std::max(failures, 1), std::clamp(uniform, 0.0, std::nextafter(1.0, 0.0)));
        return std::chrono::duration<double>(delay).count();
      },
      "failures"_a, "uniform"_a,
      "Seconds to wait before the next try, after so many failures in a row; `uniform`: drawn from [0, 1).");
}

} // namespace
} // namespace farandole::native

NB_MODULE(_native, module) {
  // A program that ends early leaves handles behind; they are no leak worth a message.
  nb::set_leak_warnings(false);
  module.doc() = "The native module that connects Python to Farandole's core.";
  farandole::native::define_request(module);
  farandole::native::define_handle(module);
  farandole::native::define_runtime(module);
  farandole::native::define_kept(module);
  farandole::native::define_devices(module);
  farandole::native::define_termination(module);
  farandole::native::define_retry_delay(module);
  farandole::native::define_foreign_jobs(module);
  farandole::native::define_kernel_api(module);
}
