#include "bindings/native/kept.hpp"

#include <utility>

namespace nb = nanobind;

namespace farandole::native {

// A number that is taken, since another job has given it out again, goes to the newer call.
kept_calls::call& kept_calls::place(std::uint32_t number) {
  if (spare_.empty())
    return calls_[number];
  auto node = std::move(spare_.back());
  spare_.pop_back();
  node.key() = number;
  return calls_.insert(std::move(node)).position->second;
}

// What goes may run Python code that comes back here, so it leaves the table first.
void kept_calls::drop(table::iterator where) {
  auto node = calls_.extract(where);
  node.mapped().operation.reset();
  node.mapped().object.reset();
  spare_.push_back(std::move(node));
}

void kept_calls::add(operation_handle started) {
  const std::uint32_t number = started.number();
  place(number).operation.emplace(std::move(started));
}

nb::object kept_calls::add_call(nb::object call) {
  nb::object number = nb::getattr(call, "number");
  place(nb::cast<std::uint32_t>(number)).object = std::move(call);
  return number;
}

nb::object kept_calls::output_of_settled(std::uint32_t number) {
  const auto found = calls_.find(number);
  if (found == calls_.end() || !found->second.operation || !found->second.operation->ended_well())
    return nb::borrow(Py_NotImplemented);
  nb::object output = found->second.operation->output();
  drop(found);
  return output;
}

nb::object kept_calls::get(std::uint32_t number) {
  const auto found = calls_.find(number);
  if (found == calls_.end())
    return nb::none();
  auto& kept = found->second;
  if (kept.operation) {
    kept.object = nb::cast(std::move(*kept.operation));
    kept.operation.reset();
  }
  return kept.object;
}

void kept_calls::forget(std::uint32_t number) {
  if (const auto found = calls_.find(number); found != calls_.end())
    drop(found);
}

void kept_calls::clear() {
  const table gone = std::exchange(calls_, {});
}

} // namespace farandole::native
