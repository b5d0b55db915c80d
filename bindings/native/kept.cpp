#include "bindings/native/kept.hpp"

#include <limits>
#include <utility>

namespace nb = nanobind;

namespace farandole::native {

// Callers may pass any object; only numbers can be in the table.
kept_calls::table::iterator kept_calls::find(nb::handle number) {
  int overflow = 0;
  const long long value =
      PyLong_Check(number.ptr()) ? PyLong_AsLongLongAndOverflow(number.ptr(), &overflow) : -1;
  if (overflow != 0 || value < 0 || value > std::numeric_limits<std::uint32_t>::max())
    return calls_.end();
  return calls_.find(static_cast<std::uint32_t>(value));
}

// If the number is taken, because another job has assigned it again, the newer call replaces the older one.
kept_calls::call& kept_calls::insert(std::uint32_t number) {
  if (spare_.empty())
    return calls_[number];
  auto node = std::move(spare_.back());
  spare_.pop_back();
  node.key() = number;
  return calls_.insert(std::move(node)).position->second;
}

// Destroying a call may run Python code that calls this object again, so the call leaves the table first.
void kept_calls::drop(table::iterator location) {
  auto node = calls_.extract(location);
  node.mapped().operation.reset();
  node.mapped().object.reset();
  spare_.push_back(std::move(node));
}

void kept_calls::add(operation_handle started) {
  const std::uint32_t number = started.number();
  insert(number).operation.emplace(std::move(started));
}

nb::object kept_calls::add_call(nb::object call) {
  nb::object number = nb::getattr(call, "number");
  insert(nb::cast<std::uint32_t>(number)).object = std::move(call);
  return number;
}

nb::object kept_calls::output_of_settled(nb::handle number) {
  const auto found = find(number);
  if (found == calls_.end() || !found->second.operation || !found->second.operation->ended_well())
    return nb::borrow(Py_NotImplemented);
  nb::object output = found->second.operation->output();
  drop(found);
  return output;
}

nb::object kept_calls::get(nb::handle number) {
  const auto found = find(number);
  if (found == calls_.end())
    return nb::none();
  auto& kept = found->second;
  if (kept.operation) {
    kept.object = nb::cast(std::move(*kept.operation));
    kept.operation.reset();
  }
  return kept.object;
}

void kept_calls::forget(nb::handle number) {
  if (const auto found = find(number); found != calls_.end())
    drop(found);
}

void kept_calls::clear() {
  const table gone = std::exchange(calls_, {});
}

} // namespace farandole::native
