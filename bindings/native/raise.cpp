#include "bindings/native/raise.hpp"

#include "bindings/native/nanobind.hpp"

#include "messages/values/printable.hpp"

namespace nb = nanobind;

namespace farandole::native {

void raise(const error& problem) {
  if (problem.kind == error_kind::invalid_argument)
    raise_value_error(problem.text);
  // Looked up each time: errors are rare, and a cached function would outlive its interpreter.
  const std::string_view kind = to_string(problem.kind);
  const auto text = printable(problem.text);
  nb::object value = nb::module_::import_("farandole.common.exceptions")
                         .attr("make_error")(nb::str(kind.data(), kind.size()),
                                             nb::str(text.data(), text.size()), problem.process_set);
  value.attr("consequence") = problem.consequence;
  PyErr_SetObject(value.type().ptr(), value.ptr());
  throw nb::python_error();
}

void raise_refusal(const error& problem) {
  if (problem.kind != error_kind::unimplemented)
    raise(problem);
  PyErr_SetString(PyExc_NotImplementedError, printable(problem.text).c_str());
  throw nb::python_error();
}

void raise_value_error(const std::string& text) {
  PyErr_SetString(PyExc_ValueError, printable(text).c_str());
  throw nb::python_error();
}

void raise_type_error(const std::string& text) {
  PyErr_SetString(PyExc_TypeError, printable(text).c_str());
  throw nb::python_error();
}

} // namespace farandole::native
