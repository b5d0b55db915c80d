#include "bindings/native/submit.hpp"

#include <nanobind/stl/string.h>

#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/native/array_view.hpp"
#include "bindings/native/raise.hpp"
#include "collectives/operation.hpp"

namespace nb = nanobind;

namespace farandole::native {
namespace {

/// How an error message shows a value of a type that is not accepted: "the int 5".
std::string shown(nb::handle value) {
  return "the " + std::string(nb::str(nb::handle(value.type()).attr("__name__")).c_str()) + " " +
         nb::repr(value).c_str();
}

std::string_view text_of(const request& request, nb::handle name) {
  if (!PyUnicode_Check(name.ptr()))
    raise_type_error(request.prefix + " takes a str or None as name, not " + shown(name) +
                     "; pass a name that is the same on all ranks");
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(name.ptr(), &length);
  if (!text)
    throw nb::python_error();
  return {text, static_cast<std::size_t>(length)};
}

void append_number(std::string& target, std::uint64_t number) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  target.append(digits, end);
}

/// Whether a call without a name gets a number. Joins and barriers get none: only one can be in flight at a time.
bool is_counted(const request& request, nb::handle name) {
  return name.is_none() && request.operation != operation::join && request.operation != operation::barrier;
}

/// The full name, in a buffer that the next call reuses. The GIL guards it.
std::string& full_name(process_runtime& running, const request& request, nb::handle name, std::uint32_t set) {
  static std::string built;
  if (is_counted(request, name))
    built = running.unnamed(set, request.prefix);
  else
    built.assign(request.prefix).append(".").append(name.is_none() ? "noname" : text_of(request, name));
  return built;
}

std::uint32_t set_number(nb::handle set) {
  const long number = PyLong_CheckExact(set.ptr()) ? PyLong_AsLong(set.ptr()) : -1;
  // The object of a removed set says why it is gone.
  if (number < 0 && nb::hasattr(set, "why"))
    raise_value_error(nb::cast<std::string>(set.attr("why")));
  if (number < 0)
    raise_value_error(
        "the process set is not registered: pass it to init(), or add it with add_process_set()");
  return static_cast<std::uint32_t>(number);
}

signature signature_of(const request& request, array_view& array_view) {
  signature wanted;
  wanted.operation = request.operation;
  wanted.dtype = array_view.dtype;
  wanted.reduce_op = request.reduce_op;
  wanted.root = request.root;
  wanted.prescale = request.prescale;
  wanted.postscale = request.postscale;
  wanted.memory = array_view.memory.device < 0 ? memory_kind::host : memory_kind::device;
  wanted.shape = std::move(array_view.shape);
  return wanted;
}

submission describe(const request& request, nb::handle input, nb::handle output, std::uint32_t set) {
  submission described;
  array_view array_view;
  if (!input.is_none()) {
    array_view = look_at(input, {request.prefix, row_of(request.operation).reduces});
    described.input = array_view.data;
    described.memory = array_view.memory;
    if (!output.is_none())
      described.output = output.is(input) ? array_view.data : address_of(output);
  } else if (request.operation != operation::barrier && request.operation != operation::join) {
    raise_type_error(request.prefix + " takes a tensor, not None");
  }
  described.signature = signature_of(request, array_view);
  described.set = set;
  described.completion = request.completion;
  return described;
}

std::vector<std::int64_t> splits_of(nb::handle splits) {
  std::vector<std::int64_t> rows;
  if (splits.is_none())
    return rows;
  for (nb::handle split : splits) {
    std::int64_t number = 0;
    if (!nb::try_cast(split, number))
      raise_value_error("splits must be whole numbers, not " + std::string(nb::repr(split).c_str()));
    rows.push_back(number);
  }
  return rows;
}

operation_handle keep(const std::shared_ptr<process_runtime>& running, farandole::handle operation,
                      std::uint32_t number, nb::handle input, nb::handle output, submission& described) {
  operation_handle kept(running, std::move(operation), number, nb::borrow(input), nb::borrow(output),
                        described.memory.device);
  if (auto& asked = described.signature; row_of(asked.operation).has_rows())
    kept.describe_rows(asked.dtype, std::move(asked.shape));
  return kept;
}

std::vector<std::string> names_of_group(process_runtime& running, const request& request, nb::handle name,
                                        std::uint32_t set, std::size_t count) {
  if (nb::isinstance<nb::list>(name)) {
    if (nb::len(name) != count)
      raise_value_error(request.prefix + " takes as many names as tensors");
    std::vector<std::string> names;
    for (nb::handle each : nb::borrow<nb::list>(name))
      names.push_back(full_name(running, request, each, set));
    return names;
  }
  std::vector<std::string> names(count, full_name(running, request, name, set));
  for (std::size_t i = 0; i < count; ++i) {
    append_number(names[i].append("_"), i + 1);
    append_number(names[i].append("of"), count);
  }
  return names;
}

} // namespace

operation_handle submit(const std::shared_ptr<process_runtime>& running, const request& request,
                        nb::handle name, nb::handle input, nb::handle output, nb::handle set,
                        nb::handle splits, bool absent) {
  running->require_usable();
  running->sweep();
  submission described = describe(request, input, output, set_number(set));
  const std::vector<std::int64_t> rows = splits_of(splits);
  described.splits = rows;
  described.absent = absent;
  described.name = full_name(*running, request, name, described.set);
  auto accepted = running->core().submit(described);
  if (!accepted)
    raise_refusal(accepted.error());
  if (is_counted(request, name))
    running->accepted_unnamed(described.set, request.prefix);
  auto kept = keep(running, std::move(*accepted), running->next_number(), input, output, described);
  spare_shape() = std::move(described.signature.shape);
  return kept;
}

nb::list submit_group(const std::shared_ptr<process_runtime>& running, const request& request,
                      nb::handle name, nb::list inputs, nb::handle outputs, nb::handle set,
                      nb::handle absent) {
  running->require_usable();
  running->sweep();
  const std::uint32_t set_id = set_number(set);
  const std::size_t count = nb::len(inputs);
  std::vector<submission> described;
  described.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const nb::object output = outputs.is_none() ? nb::none() : nb::object(outputs[i]);
    described.push_back(describe(request, inputs[i], output, set_id));
    described.back().absent = !absent.is_none() && nb::cast<bool>(absent[i]);
  }
  const auto names = names_of_group(*running, request, name, set_id, count);
  for (std::size_t i = 0; i < count; ++i)
    described[i].name = names[i];
  auto accepted = running->core().submit_group(described);
  if (!accepted)
    raise_refusal(accepted.error());
  if (is_counted(request, name))
    running->accepted_unnamed(set_id, request.prefix);
  const std::uint32_t number = running->next_number();
  nb::list handles;
  for (std::size_t i = 0; i < count; ++i) {
    const nb::object output = outputs.is_none() ? nb::none() : nb::object(outputs[i]);
    handles.append(keep(running, std::move((*accepted)[i]), number, inputs[i], output, described[i]));
  }
  return handles;
}

std::uint64_t failures(process_runtime& running, const request& request, nb::handle name, nb::handle set) {
  const std::uint32_t set_id = set_number(set);
  return running.core().failures(set_id, full_name(running, request, name, set_id));
}

} // namespace farandole::native
