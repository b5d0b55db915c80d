#include "bindings/native/set_rules.hpp"

#include <memory>
#include <string>
#include <utility>

namespace nb = nanobind;

namespace farandole::native {

namespace {

expected<bool> ask(const nb::object& callable, const member_facts& one) {
  try {
    const nb::object answer = callable(one.rank, one.size, one.local_rank, one.local_size, one.cross_rank,
                                       one.cross_size, nb::str(one.host.data(), one.host.size()));
    const int in = PyObject_IsTrue(answer.ptr());
    if (in < 0)
      throw nb::python_error();
    return in == 1;
  } catch (nb::python_error& problem) {
    return error{error_kind::precondition, "the rule of a process set failed for rank " +
                                               std::to_string(one.rank) + ": " + problem.what()};
  }
}

} // namespace

set_rule rule_of(nb::handle callable) {
  const std::shared_ptr<nb::object> shared(new nb::object(nb::borrow(callable)), [](nb::object* dropped) {
    nb::gil_scoped_acquire gil;
    delete dropped;
  });
  return [shared](const member_facts& one) -> expected<bool> {
    nb::gil_scoped_acquire gil;
    return ask(*shared, one);
  };
}

std::vector<kept_tuple> tuples_of(const std::vector<kept_set>& sets) {
  std::vector<kept_tuple> tuples;
  for (auto& one : sets)
    tuples.emplace_back(one.origin.born, one.origin.by_rule, one.origin.place, one.id, one.members);
  return tuples;
}

std::vector<kept_set> kept_from(const std::vector<kept_tuple>& sets) {
  std::vector<kept_set> kept;
  for (auto& [born, by_rule, place, id, members] : sets)
    kept.push_back({{born, by_rule, place}, id, members});
  return kept;
}

} // namespace farandole::native
