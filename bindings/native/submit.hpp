// Submits tensors from Python to the core: inspects the arrays, builds the names, and hands them over. Every gradient
// takes this path, so it makes no Python object but the handle.
#pragma once

#include "bindings/native/nanobind.hpp"

#include <cstdint>
#include <memory>
#include <string>

#include "bindings/native/process_runtime.hpp"

namespace farandole::native {

/// The parameters of a call, apart from its tensors. Names are built here: "<prefix>.<name>", or
/// "<prefix>.noname.<count>" when there is none.
struct request {
  farandole::operation operation = farandole::operation::allreduce;
  std::string prefix;
  farandole::reduce_op reduce_op = farandole::reduce_op::sum;
  std::int32_t root = -1;
  double prescale = 1.0;
  double postscale = 1.0;
  completion_mode completion = completion_mode::any;
};

/// `output` is None if the core allocates it (allgather, alltoall, and reducescatter unless the caller does) or there
/// is none. `set` is the process set's number; any other object raises ValueError. `splits`: the rows of an alltoall
/// that go to each member, as a sequence of numbers; None or empty: equal parts. `absent`: this member contributes
/// nothing.
operation_handle submit(const std::shared_ptr<process_runtime>& running, const request& request,
                        nanobind::handle name, nanobind::handle input, nanobind::handle output,
                        nanobind::handle set, nanobind::handle splits, bool absent = false);

/// Submits all or none, under one handle number. The tensors are named "<base>_<i>of<n>", counted from 1, unless `name`
/// is a list of their names. `absent`: by tensor, whether this member contributes nothing; None: it contributes to all.
nanobind::list submit_group(const std::shared_ptr<process_runtime>& running, const request& request,
                            nanobind::handle name, nanobind::list inputs, nanobind::handle outputs,
                            nanobind::handle set, nanobind::handle absent);

/// runtime::failures() of the operation that such a call submits under this name.
std::uint64_t failures(process_runtime& running, const request& request, nanobind::handle name,
                       nanobind::handle set);

} // namespace farandole::native
