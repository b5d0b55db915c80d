#include "bindings/native/set_rules.hpp"

#include <memory>
#include <string>
#include <utility>

namespace nb = nanobind;

namespace farandole::native {

namespace {

expected<bool> ask(const nb::object& callable, const member_facts& facts) {
  try {
    const nb::object answer =
        callable(facts.rank, facts.size, facts.local_rank, facts.local_size, facts.cross_rank,
                 facts.cross_size, nb::str(facts.host.data(), facts.host.size()));
    const int in = PyObject_IsTrue(answer.ptr());
    if (in < 0)
      throw nb::python_error();
    return in == 1;
  } catch (nb::python_error& problem) {
    return error{error_kind::precondition, "the rule of a process set failed for rank " +
                                               std::to_string(facts.rank) + ": " + problem.what()};
  }
}

} // namespace

set_rule rule_of(nb::handle callable) {
  const std::shared_ptr<nb::object> shared(new nb::object(nb::borrow(callable)), [](nb::object* dropped) {
    nb::gil_scoped_acquire gil;
    delete dropped;
  });
  return [shared](const member_facts& facts) -> expected<bool> {
    nb::gil_scoped_acquire gil;
    return ask(*shared, facts);
  };
}

std::vector<kept_tuple> tuples_of(const std::vector<kept_set>& sets) {
  std::vector<kept_tuple> tuples;
  for (auto& set : sets)
    tuples.emplace_back(set.origin.born, set.origin.by_rule, set.origin.index, set.id, set.members);
  return tuples;
}

std::vector<kept_set> kept_from(const std::vector<kept_tuple>& sets) {
  std::vector<kept_set> kept;
  for (auto& [born, by_rule, index, id, members] : sets)
    kept.push_back({{born, by_rule, index}, id, members});
  return kept;
}

} // namespace farandole::native
