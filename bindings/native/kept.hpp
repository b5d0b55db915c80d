// The submitted calls that Python has not fetched yet, by the number that the caller got. An operation is stored
// directly, without a Python object around it, until Python asks for one. The GIL guards the table.
#pragma once

#include "bindings/native/nanobind.hpp"

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "bindings/native/process_runtime.hpp"

namespace farandole::native {

class kept_calls {
public:
  kept_calls() = default;
  kept_calls(const kept_calls&) = delete;
  kept_calls& operator=(const kept_calls&) = delete;

  /// Keeps an operation under its number.
  void add(operation_handle started);
  /// Keeps anything that has `settled()`, `wait()`, `finish()` and `number`; gives the number.
  nanobind::object add_call(nanobind::object call);

  /// If the operation has ended well, forgets it and returns the array that was given as output. Otherwise, and for
  /// unknown numbers, returns NotImplemented; the caller then uses get().
  nanobind::object output_of_settled(nanobind::handle number);
  /// Returns the call as a Python object, and keeps it; None for unknown numbers.
  nanobind::object get(nanobind::handle number);
  void forget(nanobind::handle number);
  void clear();

private:
  struct call {
    std::optional<operation_handle> operation;
    nanobind::object object; ///< where there is no operation
  };
  using table = std::unordered_map<std::uint32_t, call>;

  table::iterator find(nanobind::handle number);
  call& insert(std::uint32_t number);
  void drop(table::iterator location);

  table calls_;
  std::vector<table::node_type> spare_; ///< memory of removed calls, for new ones
};

} // namespace farandole::native
